import t from 'tap'
import { createLookPace, type LookPace } from './lookPace.ts'

/** The ages at which one transaction is looked for until it is found. */
function looksUntil(pace: LookPace, landsAtMs: number): number[] {
  const ages: number[] = []
  let ageMs = 0
  do {
    ageMs += pace.gapMs(ageMs)
    ages.push(ageMs)
  } while (ageMs < landsAtMs)
  return ages
}

/** Looks for a transaction and tells the pace what a caller can know: that it landed between the last two looks. */
function land(pace: LookPace, landsAtMs: number): number[] {
  const ages = looksUntil(pace, landsAtMs)
  pace.note(((ages.at(-2) ?? 0) + ages.at(-1)!) / 2)
  return ages
}

const options = { firstMs: 20, maxMs: 1_000 }

t.test('with nothing known it looks early, then half as often each time, then once a second', async (t) => {
  t.same(
    looksUntil(createLookPace(options), 5_000),
    [20, 40, 80, 160, 320, 640, 1_280, 2_280, 3_280, 4_280, 5_280],
  )
})

for (const tookMs of [45, 400, 900, 2_500, 13_000]) {
  t.test(
    `a chain that takes ${tookMs} ms is found within an eighth of it, by a bounded number of looks`,
    async (t) => {
      const pace = createLookPace(options)
      for (let i = 0; i < 30; i++) land(pace, tookMs)
      const ages = land(pace, tookMs)
      t.ok(
        ages.at(-1)! - tookMs <= Math.max(options.firstMs, Math.min(tookMs / 7, options.maxMs)),
        String(ages),
      )
      t.ok(ages.length <= 8 + tookMs / options.maxMs, String(ages))
    },
  )
}

t.test('it follows a chain that becomes quicker or slower', async (t) => {
  const pace = createLookPace(options)
  for (const tookMs of [1_000, 60, 3_000]) {
    for (let i = 0; i < 60; i++) land(pace, tookMs)
    t.ok(Math.abs(pace.typicalMs! - tookMs) <= Math.max(20, tookMs / 4), `${tookMs}: ${pace.typicalMs}`)
  }
})

t.test('transactions that never land, now and then, change nothing for the others', async (t) => {
  const pace = createLookPace(options)
  for (let i = 0; i < 40; i++) {
    land(pace, 400)
    if (i % 3 === 0) pace.note(30_000)
  }
  t.ok(pace.typicalMs! < 500, String(pace.typicalMs))
})

t.test('a chain on which nothing lands any more is asked once a second, by newcomers too', async (t) => {
  const pace = createLookPace(options)
  for (let i = 0; i < 9; i++) land(pace, 60)
  for (let i = 0; i < 9; i++) pace.note(12_000)
  t.equal(pace.leastMs, options.maxMs)
  t.equal(pace.gapMs(0), options.maxMs)
})
