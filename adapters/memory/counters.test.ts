import t from 'tap'
import type { Taken } from '../../core/ports/counters.ts'
import { createMemoryCounters } from './counters.ts'

const minute = 60_000

function start(maxKeys: number) {
  const clock = { nowMs: 1_000_000, now: () => clock.nowMs }
  const counters = createMemoryCounters({ clock, maxKeys })
  return { clock, take: (key: string, limit = 5) => counters.take(key, 1, limit, minute) as Taken }
}

t.test('an answer is there at once, not as a promise', async (t) => {
  const { take } = start(10)
  t.notOk(take('key') instanceof Promise)
})

t.test('a flood of made-up keys lifts nobody’s limit', async (t) => {
  const { take } = start(100)
  for (let i = 0; i < 5; i++) t.ok(take('victim').ok)
  for (let i = 0; i < 5; i++) take('flooder')
  for (let i = 0; i < 20_000; i++) take(`made up ${i}`)
  t.notOk(take('victim').ok, 'the bucket in use is still there')
  t.notOk(take('flooder').ok)
})

t.test('a key that finds no bucket of its own is limited all the same', async (t) => {
  const { take } = start(3)
  for (const key of ['a', 'b', 'c']) take(key)
  t.equal(Array.from({ length: 50 }, () => take('late')).filter(({ ok }) => ok).length, 5)
})

t.test('most of the late keys still have their full limit', async (t) => {
  const { take } = start(1)
  take('first')
  const full = Array.from({ length: 1_000 }, (_, i) => take(`late ${i}`)).filter(
    ({ remaining }) => remaining === 4,
  )
  t.ok(full.length > 950, `${full.length} of 1,000 shared with nobody among 65,536 buckets`)
})

t.test('buckets whose window is over make room again', async (t) => {
  const { clock, take } = start(100)
  for (let i = 0; i < 100; i++) take(`old ${i}`)
  clock.nowMs += minute
  // Each new key looks at a few old ones, so all are gone after some keys.
  for (let i = 0; i < 100; i++) take(`new ${i}`)
  t.equal(Array.from({ length: 10 }, () => take('new 99')).filter(({ ok }) => ok).length, 4)
})

t.test('a clock that is set back refuses nobody for longer than a window', async (t) => {
  const { clock, take } = start(10)
  for (let i = 0; i < 5; i++) take('key')
  clock.nowMs -= 10 * minute
  t.match(take('key'), { ok: false, resetAtMs: clock.nowMs + minute })
  clock.nowMs += minute
  t.ok(take('key').ok)
})

t.test('a shared bucket keeps to the longest window', async (t) => {
  const clock = { nowMs: 0, now: () => clock.nowMs }
  const counters = createMemoryCounters({ clock, maxKeys: 0 })
  for (let i = 0; i < 5; i++) counters.take('key', 1, 5, minute)
  for (let i = 0; i < 1_000; i++) counters.take(`other ${i}`, 1, 5, 1_000)
  clock.nowMs += 2_000
  for (let i = 0; i < 1_000; i++) counters.take(`other ${i}`, 1, 5, 1_000)
  t.match(counters.take('key', 1, 5, minute), { ok: false, remaining: 0 })
})
