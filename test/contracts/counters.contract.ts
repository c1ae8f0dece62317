import fc from 'fast-check'
import type { Test } from 'tap'
import type { Counters } from '../../core/ports/counters.ts'

/** One implementation under test, with a hand on its time. */
export interface CountersUnderTest {
  readonly counters: Counters
  /** A second user of the same counts; for counters of one process the same object. */
  readonly peer: Counters
  now(): number
  /** Lets time pass for the counts, without waiting. */
  advance(ms: number): Promise<void>
}

const limits = [1, 3, 10]
// Time moves in steps of 10 s and windows end halfway between: real milliseconds that pass meanwhile change nothing.
const windows = [5_000, 25_000, 65_000]
const stepMs = 10_000
const keys = ['a', 'b', 'ключ']

interface Take {
  readonly key: string
  readonly points: number
}

/** What every {@link Counters} promises. Each start gives counters that have seen no key of the test. */
export async function countersContract(
  t: Test,
  start: (t: Test) => Promise<CountersUnderTest>,
): Promise<void> {
  await t.test(
    'a bucket admits exactly its limit, regardless of the caller and of concurrency',
    async (t) => {
      const { counters, peer, now } = await start(t)
      const before = now()
      const responses = await Promise.all(
        Array.from({ length: 1_300 }, (_, i) => (i % 2 === 0 ? counters : peer).take('key', 1, 700, 65_000)),
      )
      t.equal(responses.filter(({ ok }) => ok).length, 700)
      const remaining = responses.filter(({ ok }) => ok).map((taken) => taken.remaining)
      t.strictSame(
        remaining.sort((a, b) => a - b),
        Array.from({ length: 700 }, (_, i) => i),
        'each admitted take saw its own place',
      )
      t.ok(responses.filter(({ ok }) => !ok).every((taken) => taken.remaining === 0))
      t.ok(responses.every(({ resetAtMs }) => resetAtMs > before && resetAtMs <= now() + 65_000))
    },
  )

  await t.test('a take that does not fit leaves what is left to smaller ones', async (t) => {
    const { counters } = await start(t)
    t.match(await counters.take('key', 6, 10, 65_000), { ok: true, remaining: 4 })
    t.match(await counters.take('key', 5, 10, 65_000), { ok: false, remaining: 4 })
    t.match(await counters.take('key', 4, 10, 65_000), { ok: true, remaining: 0 })
    t.match(await counters.take('key', 0, 10, 65_000), { ok: true, remaining: 0 })
    t.match(await counters.take('key', 1, 10, 65_000), { ok: false, remaining: 0 })
  })

  await t.test('what can never be admitted is refused, and changes nothing', async (t) => {
    const { counters } = await start(t)
    for (const points of [11, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      t.match(
        await counters.take('key', points, 10, 65_000),
        { ok: false, remaining: 10 },
        `${points} points`,
      )
    }
    t.match(await counters.take('key', 1, 0, 65_000), { ok: false, remaining: 0 })
    t.match(await counters.take('key', 10, 10, 65_000), { ok: true, remaining: 0 })
  })

  await t.test('a window ends once, after its length, and not because of repeated requests', async (t) => {
    const { counters, advance } = await start(t)
    const first = await counters.take('key', 10, 10, 25_000)
    await advance(stepMs)
    const second = await counters.take('key', 1, 10, 25_000)
    t.notOk(second.ok)
    t.ok(Math.abs(second.resetAtMs - first.resetAtMs) < stepMs, 'the end did not move')
    await advance(stepMs)
    t.notOk((await counters.take('key', 1, 10, 25_000)).ok)
    await advance(stepMs)
    t.match(await counters.take('key', 10, 10, 25_000), { ok: true, remaining: 0 })
  })

  await t.test('every run of takes agrees with a window counted by hand', async (t) => {
    const take = fc.record({ key: fc.constantFrom(...keys), points: fc.integer({ min: 0, max: 4 }) })
    const step = fc.oneof(
      { weight: 4, arbitrary: take },
      { weight: 1, arbitrary: fc.constant('wait' as const) },
    )
    const run = fc.record({
      limit: fc.constantFrom(...limits),
      windowMs: fc.constantFrom(...windows),
      steps: fc.array(step, { maxLength: 30 }),
    })
    const underTest = await start(t)
    let runs = 0
    await fc.assert(
      fc.asyncProperty(run, ({ limit, windowMs, steps }) =>
        agrees(underTest, `run ${runs++} `, limit, windowMs, steps),
      ),
      { numRuns: 100 },
    )
    t.ok(runs >= 100)
  })
}

async function agrees(
  { counters, peer, advance }: CountersUnderTest,
  prefix: string,
  limit: number,
  windowMs: number,
  steps: readonly (Take | 'wait')[],
): Promise<boolean> {
  const model = new Map<string, { used: number; endsAt: number }>()
  let elapsed = 0
  for (const [i, step] of steps.entries()) {
    if (step === 'wait') {
      elapsed += stepMs
      await advance(stepMs)
      continue
    }
    let bucket = model.get(step.key)
    if (bucket === undefined || bucket.used === 0 || bucket.endsAt <= elapsed) {
      model.set(step.key, (bucket = { used: 0, endsAt: elapsed + windowMs }))
    }
    const ok = bucket.used + step.points <= limit
    if (ok) bucket.used += step.points
    const taken = await (i % 2 === 0 ? counters : peer).take(prefix + step.key, step.points, limit, windowMs)
    if (taken.ok !== ok || taken.remaining !== limit - bucket.used) return false
  }
  return true
}
