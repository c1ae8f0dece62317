import t from 'tap'
import { createConfirmPace } from './confirmations.ts'

const options = { firstMs: 10, maxMs: 1_000 }

/** Numbers from 0 to 1, the same in every run. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/**
 * Payments one after the other, on a chain that takes `tookMs()`, seen through a node `latencyMs` away. The first ones
 * teach the pace what the chain takes.
 *
 * @returns looks a payment, and how long after it had landed half of the payments were known to have
 */
function payMany(pace: ReturnType<typeof createConfirmPace>, tookMs: () => number, latencyMs: number) {
  const lateMs: number[] = []
  let polls = 0
  for (let i = -50; i < 1_000; i++) {
    const landsAtMs = latencyMs / 2 + tookMs()
    let absentMs = 0
    let ageMs = pace.gapMs(0)
    let own = 1
    for (; landsAtMs > ageMs + latencyMs / 2; own++) {
      absentMs = ageMs
      ageMs += Math.max(latencyMs, pace.gapMs(ageMs))
    }
    pace.note(absentMs, ageMs)
    if (i < 0) continue
    polls += own
    lateMs.push(ageMs + latencyMs / 2 - landsAtMs)
  }
  return { polls: polls / lateMs.length, p50Ms: lateMs.toSorted((a, b) => a - b)[lateMs.length >> 1]! }
}

t.test('before anything has landed it looks at once, then half as often each time', async (t) => {
  const pace = createConfirmPace(options)
  const ages: number[] = []
  for (let ageMs = 0; ageMs < 4_000; ages.push(ageMs)) ageMs += pace.gapMs(ageMs)
  t.same(ages, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_280, 3_280, 4_280])
})

for (const latencyMs of [0, 40, 100]) {
  const random = randomOf(7)
  const chains: readonly [name: string, tookMs: () => number, maxLooks: number, mostMs: number][] = [
    ['is instant', () => 2 + 3 * random(), 1.1, 10],
    ['has slots of 100 ms', () => 100 * random(), 2.4, 30],
    ['has slots of 400 ms', () => 400 * random(), 2.4, 70],
    ['takes 400 to 950 ms', () => 400 + 400 * random() + 150 * random(), 2.5, 80],
    ['always takes 400 ms', () => 395 + 10 * random(), 2.3, 30],
  ]
  for (const [name, tookMs, maxPolls, mostMs] of chains) {
    t.test(`a chain that ${name}, ${latencyMs} ms away, is asked about twice a payment`, async (t) => {
      const { polls, p50Ms } = payMany(createConfirmPace(options), tookMs, latencyMs)
      t.ok(polls <= maxPolls, `${polls} looks a payment`)
      // One request after the other, because a response in flight is waited for.
      t.ok(p50Ms <= Math.max(mostMs, latencyMs), `half of them are known within ${p50Ms} ms`)
    })
  }
}

t.test('it follows a chain that becomes quicker or slower', async (t) => {
  const pace = createConfirmPace(options)
  for (const tookMs of [1_000, 60, 3_000, 5]) {
    payMany(pace, () => tookMs, 0)
    const late = payMany(pace, () => tookMs, 0)
    t.ok(late.p50Ms <= Math.max(10, tookMs / 10), `${tookMs}: ${late.p50Ms} ms late`)
  }
})

t.test('payments that never land, one in four, make nobody else late', async (t) => {
  const pace = createConfirmPace(options)
  const random = randomOf(3)
  const late: number[] = []
  for (let i = 0; i < 400; i++) {
    if (i % 4 === 0) pace.note(12_000, 12_000)
    let [absentMs, ageMs] = [0, pace.gapMs(0)]
    const landsAtMs = 400 * random()
    while (landsAtMs > ageMs) {
      absentMs = ageMs
      ageMs += pace.gapMs(ageMs)
    }
    pace.note(absentMs, ageMs)
    late.push(ageMs - landsAtMs)
  }
  t.ok(late.toSorted((a, b) => a - b)[late.length >> 1]! <= 150, String(late))
})

t.test('a chain on which nothing lands any more is asked once a second, by newcomers too', async (t) => {
  const pace = createConfirmPace(options)
  for (let i = 0; i < 16; i++) pace.note(40, 60)
  for (let i = 0; i < 16; i++) pace.note(12_000, 12_000)
  t.equal(pace.gapMs(0), options.maxMs)
})
