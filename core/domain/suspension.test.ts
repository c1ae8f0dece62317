import fc from 'fast-check'
import t from 'tap'
import {
  callsToJudge,
  callWindowMs,
  cooldownsMs,
  freshHealth,
  type HealthObservation,
  type HealthState,
  observe,
  probeFailureSpanMs,
  probeFailuresToSuspend,
  reEnableStep,
  suspensionAfter,
} from './suspension.ts'

const start = Date.UTC(2026, 0, 1)
const minuteMs = 60_000

interface Step {
  readonly atMs: number
  readonly what: HealthObservation
}

/** Runs the steps and says at which times a suspension was called for. */
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

const probe = (failed: boolean): HealthObservation => ({ kind: 'probe', failed })
const call = (failed: boolean): HealthObservation => ({ kind: 'call', failed })
const steps = (count: number, everyMs: number, what: HealthObservation, from = start): Step[] =>
  Array.from({ length: count }, (_, i) => ({ atMs: from + i * everyMs, what }))

const mostlyFailed = fc.oneof({ weight: 9, arbitrary: fc.constant(true) }, fc.constant(false))
const observations: fc.Arbitrary<HealthObservation> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('probe' as const), failed: mostlyFailed }) },
  { weight: 12, arbitrary: fc.record({ kind: fc.constant('call' as const), failed: mostlyFailed }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('egress' as const), up: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ kind: 're-enabled' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'suspended' as const }) },
)
const histories = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 3 * minuteMs }), observations), {
    minLength: 40,
    maxLength: 200,
    size: 'max',
  })
  .map((pairs) => {
    let atMs = start
    return pairs.map(([waitMs, what]): Step => ({ atMs: (atMs += waitMs), what }))
  })

t.test('five failed probes suspend, but not before five minutes have passed', async (t) => {
  t.same(run(steps(60, 1_000, probe(true))).at, [], 'a minute of failures each second is not enough')
  t.same(run(steps(5, 75_000, probe(true))).at, [start + 300_000], 'the fifth, exactly five minutes later')
  t.same(run(steps(5, 74_000, probe(true))).at, [], 'five within less than five minutes')
  t.same(run(steps(6, 60_000, probe(true))).at, [start + 300_000], 'one a minute: the sixth')
  t.same(run(steps(4, 10 * minuteMs, probe(true))).at, [], 'four over half an hour')
})

t.test('one healthy probe or one successful call starts the row of failures anew', async (t) => {
  for (const good of [probe(false), call(false)]) {
    const history = [
      ...steps(4, 70_000, probe(true)),
      { atMs: start + 280_000, what: good },
      ...steps(4, 70_000, probe(true), start + 290_000),
    ]
    t.same(run(history).at, [], `after a good ${good.kind}`)
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
  t.same(run(mixed(0, 20, minuteMs)).at, [], 'twenty over twenty minutes')
})

t.test('a link that is suspended is not suspended again until it was re-enabled', async (t) => {
  const broken = steps(20, minuteMs, probe(true))
  t.same(run(broken).at.length, 1)
  const again = [
    ...broken,
    { atMs: start + 20 * minuteMs, what: { kind: 're-enabled' } as const },
    ...steps(6, minuteMs, probe(true), start + 21 * minuteMs),
  ]
  t.same(run(again).at.length, 2)
})

t.test('nothing is suspended while the way out is down, nor for what happened meanwhile', async (t) => {
  const down = { atMs: start, what: { kind: 'egress', up: false } as const }
  const failures = [...steps(30, minuteMs, probe(true)), ...steps(40, 1_000, call(true))]
  const outage = run([down, ...failures])
  t.same(outage.at, [])
  const back = { atMs: start + 40 * minuteMs, what: { kind: 'egress', up: true } as const }
  t.same(run([back, ...steps(4, 2 * minuteMs, probe(true), back.atMs)], outage.state).at, [])
})

t.test('every suspension has its cause in the observations before it', async (t) => {
  let suspensions = 0
  fc.assert(
    fc.property(histories, (history) => {
      let state = freshHealth
      let isSuspended = false
      let isUp = true
      let row: number[] = []
      let calls: { atMs: number; failed: boolean }[] = []
      for (const { atMs, what } of history) {
        const verdict = observe(state, what, atMs)
        state = verdict.state
        if (what.kind === 'egress') isUp = what.up
        if (what.kind === 're-enabled') isSuspended = false
        if (what.kind === 'suspended') isSuspended = true
        if (what.kind !== 'probe' && what.kind !== 'call') continue
        if (!what.failed) row = []
        else if (what.kind === 'probe') row.push(atMs)
        if (what.kind === 'call') calls.push({ atMs, failed: what.failed })
        if (verdict.suspend === null) continue
        const recent = calls.filter((c) => c.atMs > atMs - callWindowMs)
        const failed = recent.filter((c) => c.failed).length
        const byProbes = row.length >= probeFailuresToSuspend && atMs - row[0]! >= probeFailureSpanMs
        const byCalls = recent.length >= callsToJudge && failed * 2 >= callsToJudge
        if (isSuspended || !isUp || !(byProbes || byCalls)) return false
        suspensions++
        isSuspended = true
        row = []
        calls = []
      }
      return true
    }),
    { numRuns: 500 },
  )
  t.ok(suspensions > 100, 'the histories are bad enough to prove something')
})

t.test('the state stays small and the argument is left alone, whatever the clock does', async () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 0, max: 2 ** 42 }), observations), { maxLength: 300 }),
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
          new Set(state.callMinutes.map((m) => m.minute)).size === state.callMinutes.length &&
          state.failedProbesInARow <= probeFailuresToSuspend
        )
      },
    ),
  )
})

t.test('a clock that is put back does not keep old calls for good', async (t) => {
  const ahead = run(steps(19, 1_000, call(true), start + 1_000 * minuteMs)).state
  t.same(run([{ atMs: start, what: call(true) }], ahead).at, [])
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
    [15, 60, 360, 1440].map((minutes) => minutes * minuteMs),
  )
})

t.test('re-enabling waits for the end of the cooldown, to the millisecond', async (t) => {
  const suspension = suspensionAfter(0, 'x', start)
  t.equal(reEnableStep(null, start), 'not-suspended')
  t.equal(reEnableStep(suspension, suspension.cooldownUntilMs - 1), 'cooling-down')
  t.equal(reEnableStep(suspension, suspension.cooldownUntilMs), 'probe')
  t.equal(reEnableStep(suspensionAfter(4, 'x', start), start + 10 ** 12), 'permanent')
})
