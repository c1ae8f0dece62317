import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { ManualClock } from '../../../test/helpers/vault/manualClock.ts'
import { Throttle } from './passwordGate.ts'

const HOUR_MS = 3_600_000
const delayAfter = (failures: number) => Math.min(HOUR_MS, 1_000 * 2 ** (failures - 1))

/** Steps that an attacker who guesses can take. */
const steps = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.constant({ kind: 'guess' } as const) },
    { weight: 2, arbitrary: fc.constant({ kind: 'restart' } as const) },
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 90_000 }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant('turn back' as const), ms: fc.integer({ min: 1, max: 9e6 }) }),
    },
  ),
  { maxLength: 60 },
)

t.test(
  'however often the process restarts and the clock is turned back, no guess comes sooner',
  async (t) => {
    const file = join(t.testdir(), 'attempts.json')
    fc.assert(
      fc.property(steps, (taken) => {
        const clock = new ManualClock()
        Throttle.create(file, clock)
        let throttle = new Throttle(file, clock)
        let failures = 0
        let lastGuessAt = Number.NEGATIVE_INFINITY
        for (const step of taken) {
          if (step.kind === 'pass') clock.pass(step.ms)
          if (step.kind === 'turn back') clock.wallMs -= step.ms
          if (step.kind === 'restart') throttle = new Throttle(file, clock)
          if (step.kind !== 'guess') continue
          try {
            throttle.begin()
          } catch {
            continue
          }
          // Monotonic time, which no step changes: at least the whole wait must have passed since the previous guess.
          if (failures > 0 && clock.elapsedMs - lastGuessAt < delayAfter(failures)) return false
          failures++
          lastGuessAt = clock.elapsedMs
        }
        return true
      }),
      { numRuns: 150 },
    )
  },
)

t.test(
  'an attempt counts as failed before the password is tried, and a right one takes it back',
  async (t) => {
    const file = join(t.testdir(), 'attempts.json')
    const clock = new ManualClock()
    Throttle.create(file, clock)
    new Throttle(file, clock).begin()
    const afterKill = new Throttle(file, clock)
    t.equal(afterKill.waitMs(), 1_000, 'killed in between, it still counts')
    t.throws(() => afterKill.begin(), { code: 'TOO_MANY_ATTEMPTS', retryAfterSeconds: 1 })
    clock.pass(1_000)
    afterKill.begin()
    t.equal(afterKill.waitMs(), 2_000)
    afterKill.succeed()
    t.equal(afterKill.waitMs(), 0)
    t.equal(new Throttle(file, clock).waitMs(), 0)
  },
)

t.test('without a wrong password there is no wait, wherever the clock is turned', async (t) => {
  const file = join(t.testdir(), 'attempts.json')
  const clock = new ManualClock()
  Throttle.create(file, clock)
  clock.wallMs -= HOUR_MS
  t.equal(new Throttle(file, clock).waitMs(), 0)
})

t.test('waits double up to an hour', async (t) => {
  const file = join(t.testdir(), 'attempts.json')
  const clock = new ManualClock()
  Throttle.create(file, clock)
  const throttle = new Throttle(file, clock)
  for (let failures = 1; failures <= 20; failures++) {
    throttle.begin()
    t.equal(throttle.waitMs(), delayAfter(failures))
    clock.pass(throttle.waitMs())
  }
})

t.test('wrong passwords at one door do not count at the other, and both survive a restart', async (t) => {
  const file = join(t.testdir(), 'attempts.json')
  const clock = new ManualClock()
  Throttle.create(file, clock)
  const throttle = new Throttle(file, clock)
  throttle.begin('page')
  t.throws(() => throttle.begin('page'), { code: 'TOO_MANY_ATTEMPTS' })
  throttle.begin('socket')
  throttle.succeed('socket')
  const again = new Throttle(file, clock)
  t.strictSame([again.waitMs('page'), again.waitMs('socket')], [1_000, 0])
})

t.test('a changed or missing file waits the longest, also after the next restart', async (t) => {
  const file = join(t.testdir(), 'attempts.json')
  const clock = new ManualClock()
  Throttle.create(file, clock)
  const whole = readFileSync(file)
  for (let at = 0; at <= whole.length; at++) {
    const changed = Buffer.from(whole)
    if (at < whole.length) changed[at]! ^= 0x01
    writeFileSync(file, changed)
    if (at === whole.length) rmSync(file)
    t.equal(new Throttle(file, clock).waitMs(), HOUR_MS, `byte ${at}`)
    clock.pass(60_000)
    t.equal(new Throttle(file, clock).waitMs(), HOUR_MS - 60_000)
  }
})

t.test('a password that was not looked at counts for nothing, and forgives nothing', async (t) => {
  const file = join(t.testdir(), 'attempts.json')
  const clock = new ManualClock()
  Throttle.create(file, clock)
  const throttle = new Throttle(file, clock)
  throttle.begin()
  throttle.takeBack()
  t.equal(new Throttle(file, clock).waitMs(), 0)
  throttle.begin()
  clock.pass(throttle.waitMs())
  throttle.begin()
  throttle.takeBack()
  t.equal(throttle.waitMs(), delayAfter(1), 'the wrong one before it still stands')
})
