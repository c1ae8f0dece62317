import fc from 'fast-check'
import t from 'tap'
import {
  CALL_WINDOW_MS,
  CALLS_TO_JUDGE,
  CHARGED_PAYERS_TO_JUDGE,
  confirmationSpansMs,
  cooldownsMs,
  freshHealth,
  type HealthObservation,
  type HealthState,
  observe,
  PROBE_FAILURE_SPAN_MS,
  PROBE_FAILURES_TO_SUSPEND,
  reEnableStep,
  suspensionAfter,
} from './suspension.ts'

const start = Date.UTC(2026, 0, 1)
const MINUTE_MS = 60_000

interface Step {
  readonly atMs: number
  readonly what: HealthObservation
}

/** An observation at a time, or the observations of a call that began and ended then. */
type Happening = HealthObservation | ((atMs: number) => readonly HealthObservation[])

/** Runs the steps and returns the times at which a suspension was due. */
function run(steps: readonly Step[], from: HealthState = freshHealth): { state: HealthState; at: number[] } {
  const at: number[] = []
  let state = from
  for (const { atMs, what } of steps) {
    const verdict = observe(state, what, atMs)
    state = verdict.state
    if (verdict.suspend !== null) at.push(atMs)
  }
  return { state, at }
}

/** The caller where it does not matter. */
const caller = ['203.0.113.1']
const probe = (failed: boolean): HealthObservation => ({ kind: 'probe', failed })
/** A call that ends at the moment in which it began. */
const call =
  (failed: boolean) =>
  (startedAtMs: number): readonly HealthObservation[] => [
    { kind: 'calls', count: 1, startedAtMs },
    failed ? { kind: 'call-failed', startedAtMs, caller } : { kind: 'call-answered' },
  ]
const stepsAt = (atMs: number, what: Happening): Step[] =>
  [typeof what === 'function' ? what(atMs) : what].flat().map((one) => ({ atMs, what: one }))
const steps = (count: number, everyMs: number, what: Happening, from = start): Step[] =>
  Array.from({ length: count }, (_, i) => stepsAt(from + i * everyMs, what)).flat()

const mostlyFailed = fc.oneof({ weight: 9, arbitrary: fc.constant(true) }, fc.constant(false))
/** A call that takes its time to end, or an immediate observation. */
type Event = { readonly kind: 'call'; readonly failed: boolean; readonly lastsMs: number } | HealthObservation
const events: fc.Arbitrary<Event> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('probe' as const), failed: mostlyFailed }) },
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('call' as const),
      failed: mostlyFailed,
      lastsMs: fc.nat(3 * MINUTE_MS),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('egress' as const), up: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ kind: 're-enabled' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'suspended' as const }) },
)
const histories = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 3 * MINUTE_MS }), events), {
    minLength: 40,
    maxLength: 200,
    size: 'max',
  })
  .map((pairs) => {
    let atMs = start
    const history = pairs.flatMap(([waitMs, event]): Step[] => {
      atMs += waitMs
      if (event.kind !== 'call') return [{ atMs, what: event }]
      const [begins, ends] = call(event.failed)(atMs)
      return [
        { atMs, what: begins! },
        { atMs: atMs + event.lastsMs, what: ends! },
      ]
    })
    return history.sort((a, b) => a.atMs - b.atMs)
  })

t.test('five failed probes suspend, but not before five minutes have passed', async (t) => {
  t.same(run(steps(60, 1_000, probe(true))).at, [], 'a minute of failures each second is not enough')
  t.same(run(steps(5, 75_000, probe(true))).at, [start + 300_000], 'the fifth, exactly five minutes later')
  t.same(run(steps(5, 74_000, probe(true))).at, [], 'five within less than five minutes')
  t.same(run(steps(6, 60_000, probe(true))).at, [start + 300_000], 'one a minute: the sixth')
  t.same(run(steps(4, 10 * MINUTE_MS, probe(true))).at, [], 'four over half an hour')
})

t.test('one healthy probe or one successful call starts the row of failures anew', async (t) => {
  for (const good of [probe(false), call(false)]) {
    const history = [
      ...steps(4, 70_000, probe(true)),
      ...stepsAt(start + 280_000, good),
      ...steps(4, 70_000, probe(true), start + 290_000),
    ]
    t.same(run(history).at, [])
  }
})

t.test('half of twenty calls within ten minutes suspend', async (t) => {
  const mixed = (good: number, bad: number, everyMs: number) => [
    ...steps(good, everyMs, call(false)),
    ...steps(bad, everyMs, call(true), start + good * everyMs),
  ]
  t.same(run(mixed(10, 10, 1_000)).at, [start + 19_000])
  t.same(run(mixed(9, 10, 1_000)).at, [], 'nineteen calls')
  t.same(run(mixed(11, 10, 1_000)).at, [], 'less than half')
  t.same(run(mixed(0, 20, MINUTE_MS)).at, [], 'twenty over twenty minutes')
})

t.test(
  'calls only raise a suspicion, which has to be confirmed for longer where callers are few',
  async (t) => {
    const firstConfirmedOver = (callerOf: (i: number) => readonly string[]) => {
      let state = freshHealth
      for (let i = 0; ; i++) {
        state = observe(state, { kind: 'calls', count: 1, startedAtMs: start }, start).state
        const failed = { kind: 'call-failed', startedAtMs: start, caller: callerOf(i) } as const
        const verdict = observe(state, failed, start)
        state = verdict.state
        if (verdict.suspend !== null) return verdict.confirmOverMs
      }
    }
    const { manyCallers, fewCallers } = confirmationSpansMs
    t.equal(
      firstConfirmedOver((i) => [`203.0.113.${i}`]),
      manyCallers,
    )
    t.equal(
      firstConfirmedOver((i) => [`203.0.113.${i}`, `0x${i}`]),
      manyCallers,
    )
    t.equal(
      firstConfirmedOver((i) => [`203.0.113.${i % 4}`]),
      manyCallers,
      'four',
    )
    t.equal(
      firstConfirmedOver((i) => [`203.0.113.${i % 3}`]),
      fewCallers,
      'three',
    )
    t.equal(
      firstConfirmedOver(() => ['203.0.113.1', '0x1']),
      fewCallers,
      'one',
    )
    t.equal(
      firstConfirmedOver((i) => [`203.0.113.${i}`, '0x1']),
      fewCallers,
      'one wallet with many addresses',
    )
    t.equal(
      firstConfirmedOver((i) => ['203.0.113.1', `0x${i}`]),
      fewCallers,
      'one address with many wallets',
    )
    t.equal(
      firstConfirmedOver(() => []),
      fewCallers,
      'nobody knows',
    )
    const byProbes = steps(6, MINUTE_MS, probe(true))
    let state = freshHealth
    for (const { atMs, what } of byProbes) {
      const verdict = observe(state, what, atMs)
      state = verdict.state
      if (verdict.suspend !== null)
        t.equal(verdict.confirmOverMs, 0, 'what probes found needs no further ones')
    }
  },
)

const payer = (i: number) => [`198.51.100.${i}`, `0xpayer${i}`]
const paidCall =
  (paid: 'charged' | 'uncharged' | 'served', by: readonly string[]) =>
  (startedAtMs: number): readonly HealthObservation[] => [
    { kind: 'calls', count: 1, startedAtMs },
    paid === 'served'
      ? { kind: 'payer-served', startedAtMs, caller: by }
      : { kind: 'call-failed', startedAtMs, caller: by, isCharged: paid === 'charged' },
  ]

/** Over what times probes have to confirm a suspicion raised by these calls. */
function confirmedOver(calls: readonly ReturnType<typeof paidCall>[]): number[] {
  const over: number[] = []
  let state = freshHealth
  for (const { atMs, what } of calls.flatMap((one, i) => stepsAt(start + i, one))) {
    const verdict = observe(state, what, atMs)
    state = verdict.state
    if (verdict.suspend === null) continue
    over.push(verdict.confirmOverMs)
    state = observe(state, { kind: 'cleared' }, atMs).state
  }
  return over
}
const failing = (count: number, paid: 'charged' | 'uncharged', payers: number, from = 0) =>
  Array.from({ length: count }, (_, i) => paidCall(paid, payer(from + (i % payers))))

t.test('no probe speaks for a seller where enough different payers met the failures', async (t) => {
  t.same(confirmedOver(failing(20, 'charged', CHARGED_PAYERS_TO_JUDGE)), [0])
  t.not(confirmedOver(failing(20, 'charged', CHARGED_PAYERS_TO_JUDGE - 1))[0], 0, 'too few')
  const oneWallet = Array.from({ length: 20 }, (_, i) => paidCall('charged', [`198.51.100.${i}`, '0x1']))
  t.not(confirmedOver(oneWallet)[0], 0, 'one wallet')
  const oneAddress = Array.from({ length: 20 }, (_, i) => paidCall('charged', ['198.51.100.1', `0x${i}`]))
  t.not(confirmedOver(oneAddress)[0], 0, 'one address')
})

t.test(
  'whoever was not charged suspends no link that its probes find well, however many he seems to be',
  async (t) => {
    const over = confirmedOver(failing(250, 'uncharged', 250))
    t.ok(over.length > 5, 'suspected over and over')
    t.notOk(over.includes(0), 'and never without a probe')
  },
)

t.test('payers who were served outweigh those with inputs that fail', async (t) => {
  const served = (count: number) =>
    Array.from({ length: count }, (_, i) => paidCall('served', payer(100 + i)))
  t.same(confirmedOver([...served(5), ...failing(20, 'charged', 5)]), [0], 'as many')
  t.not(confirmedOver([...served(6), ...failing(20, 'charged', 5)])[0], 0, 'more')
})

t.test('a good probe ends a suspicion, and does not make the payers forgotten', async (t) => {
  // Its own failing calls make it suspicious again and again, each time with a good probe.
  const calls = [0, 1, 2, 3, 4].flatMap((i) => [
    paidCall('charged', payer(i)),
    ...Array.from({ length: 19 }, () => paidCall('uncharged', ['192.0.2.1', '0xseller'])),
  ])
  const over = confirmedOver(calls)
  t.equal(over.length, 5)
  t.equal(over.at(-1), 0)
  t.notOk(over.slice(0, -1).includes(0))
})

t.test('a link that is suspended is not suspended again until it was re-enabled', async (t) => {
  const broken = steps(20, MINUTE_MS, probe(true))
  t.same(run(broken).at.length, 1)
  const again = [
    ...broken,
    { atMs: start + 20 * MINUTE_MS, what: { kind: 're-enabled' } as const },
    ...steps(6, MINUTE_MS, probe(true), start + 21 * MINUTE_MS),
  ]
  t.same(run(again).at.length, 2)
})

t.test(
  'nothing is suspended while the gateway has no connectivity, nor for what happened meanwhile',
  async (t) => {
    const down = { atMs: start, what: { kind: 'egress', up: false } as const }
    const failures = [...steps(30, MINUTE_MS, probe(true)), ...steps(40, 1_000, call(true))]
    const outage = run([down, ...failures])
    t.same(outage.at, [])
    const back = { atMs: start + 40 * MINUTE_MS, what: { kind: 'egress', up: true } as const }
    t.same(run([back, ...steps(4, 2 * MINUTE_MS, probe(true), back.atMs)], outage.state).at, [])
  },
)

t.test('every suspension has its cause in the observations before it', async (t) => {
  let suspensions = 0
  fc.assert(
    fc.property(histories, (history) => {
      let state = freshHealth
      let isSuspended = false
      let isUp = true
      let row: number[] = []
      let begun: number[] = []
      const failed: number[] = []
      for (const { atMs, what } of history) {
        const verdict = observe(state, what, atMs)
        state = verdict.state
        if (what.kind === 'calls') begun.push(what.startedAtMs)
        if (what.kind === 'call-failed') failed.push(what.startedAtMs)
        if (what.kind === 'egress') isUp = what.up
        if (what.kind === 're-enabled') isSuspended = false
        if (what.kind === 'suspended') isSuspended = true
        if (what.kind === 're-enabled' || what.kind === 'suspended' || (what.kind === 'egress' && isUp)) {
          begun = []
          row = []
        }
        if (what.kind === 'call-answered' || (what.kind === 'probe' && !what.failed)) row = []
        if (what.kind === 'probe' && what.failed) row.push(atMs)
        if (verdict.suspend === null) continue
        const first = Math.floor(atMs / MINUTE_MS) * MINUTE_MS - CALL_WINDOW_MS + MINUTE_MS
        const calls = begun.filter((startedAtMs) => startedAtMs >= first).length
        const failures = failed.filter((startedAtMs) => startedAtMs >= first).length
        const byProbes = row.length >= PROBE_FAILURES_TO_SUSPEND && atMs - row[0]! >= PROBE_FAILURE_SPAN_MS
        const byCalls = calls >= CALLS_TO_JUDGE && failures * 2 >= calls
        if (isSuspended || !isUp || !(byProbes || byCalls)) return false
        suspensions++
        isSuspended = true
        row = []
        begun = []
      }
      return true
    }),
    { numRuns: 500 },
  )
  t.ok(suspensions > 100, 'the histories are bad enough to prove something')
})

t.test('calls that fail fast are not held against those that are still under way', async (t) => {
  const burst = steps(140, 10, (startedAtMs) => [{ kind: 'calls', count: 1, startedAtMs }])
  const fails = (count: number) =>
    burst.slice(0, count).map(
      ({ atMs }): Step => ({
        atMs: start + 2_000,
        what: { kind: 'call-failed', startedAtMs: atMs, caller },
      }),
    )
  t.same(run([...burst, ...fails(69)]).at, [], 'less than half of those that began')
  t.same(run([...burst, ...fails(70)]).at, [start + 2_000], 'half')
})

t.test('a call counts in the minute in which it began, also when it ends in a later one', async (t) => {
  const slow = steps(20, 1_000, (startedAtMs) => [{ kind: 'calls', count: 1, startedAtMs }], start)
  const next = steps(
    20,
    1_000,
    (startedAtMs) => [{ kind: 'calls', count: 1, startedAtMs }],
    start + MINUTE_MS,
  )
  const late = Array.from(
    { length: 20 },
    (_, i): Step => ({
      atMs: start + 90_000 + i,
      what: { kind: 'call-failed', startedAtMs: start + i * 1_000, caller },
    }),
  )
  t.same(run([...slow, ...next, ...late]).at, [start + 90_019], 'twenty of forty')
  const tooLate = late.map(({ atMs, what }): Step => ({ atMs: atMs + CALL_WINDOW_MS, what }))
  t.same(run([...slow, ...next, ...tooLate]).at, [], 'calls of a time that is no longer looked at')
})

t.test('a call that is taken back was none', async (t) => {
  const failing = steps(10, 1_000, call(true))
  const others = steps(10, 1_000, (startedAtMs) => [{ kind: 'calls', count: 1, startedAtMs }])
  const takenBack = steps(1, 1_000, (startedAtMs) => [{ kind: 'calls', count: -1, startedAtMs }])
  t.same(run([...others, ...failing]).at, [start + 9_000])
  t.same(run([...others, ...takenBack, ...failing]).at, [], 'nineteen calls')
})

const anyMs = fc.integer({ min: 0, max: 2 ** 42 })
const anyObservation: fc.Arbitrary<HealthObservation> = fc.oneof(
  events.filter((event) => event.kind !== 'call'),
  fc.record({
    kind: fc.constant('calls' as const),
    count: fc.integer({ min: -5, max: 5 }),
    startedAtMs: anyMs,
  }),
  fc.record({
    kind: fc.constant('call-failed' as const),
    startedAtMs: anyMs,
    caller: fc.array(fc.string()),
    isCharged: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('payer-served' as const),
    startedAtMs: anyMs,
    caller: fc.array(fc.string()),
  }),
  fc.constant({ kind: 'cleared' as const }),
)

t.test('the state stays small and the argument is left alone, whatever the clock does', async () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 0, max: 2 ** 42 }), anyObservation), { maxLength: 300 }),
      (history) => {
        let state = freshHealth
        for (const [atMs, what] of history) {
          const before = JSON.stringify(state)
          const next = observe(state, what, atMs).state
          if (JSON.stringify(state) !== before) return false
          state = next
        }
        return (
          state.callMinutes.length <= 10 &&
          state.callMinutes.every(
            (m) =>
              m.failed >= 0 &&
              m.failed <= m.calls &&
              [m.failedBy, m.chargedPayers, m.servedPayers].every((by) => by.length <= 50),
          ) &&
          new Set(state.callMinutes.map((m) => m.minute)).size === state.callMinutes.length &&
          state.failedProbesInARow <= PROBE_FAILURES_TO_SUSPEND
        )
      },
    ),
  )
})

t.test('a clock that is put back does not keep old calls for good', async (t) => {
  const ahead = run(steps(19, 1_000, call(true), start + 1_000 * MINUTE_MS)).state
  t.same(run([...stepsAt(start, call(true))], ahead).at, [])
  const after = run(steps(20, 1_000, call(true)), ahead)
  t.same(after.at, [start + 19_000])
})

t.test('cooldowns grow with the count, and the fifth suspension is permanent', async (t) => {
  t.same(
    [0, 1, 2, 3].map((earlier) => suspensionAfter(earlier, 'x', start).cooldownUntilMs - start),
    cooldownsMs,
  )
  t.same(
    [0, 1, 2, 3, 4, 5].map((earlier) => suspensionAfter(earlier, 'x', start).permanent),
    [false, false, false, false, true, true],
  )
  t.same(
    cooldownsMs,
    [15, 60, 360, 1440].map((minutes) => minutes * MINUTE_MS),
  )
})

t.test('re-enabling waits for the end of the cooldown, to the millisecond', async (t) => {
  const suspension = suspensionAfter(0, 'x', start)
  t.equal(reEnableStep(null, start), 'not-suspended')
  t.equal(reEnableStep(suspension, suspension.cooldownUntilMs - 1), 'cooling-down')
  t.equal(reEnableStep(suspension, suspension.cooldownUntilMs), 'probe')
  t.equal(reEnableStep(suspensionAfter(4, 'x', start), start + 10 ** 12), 'permanent')
})
