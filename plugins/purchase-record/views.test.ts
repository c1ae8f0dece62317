import fc from 'fast-check'
import t from 'tap'
import { createViews } from './views.ts'

const HOUR_MS = 3_600_000

t.test('however many callers come, few are remembered', async (t) => {
  const views = createViews()
  const link = views.markOf('link')
  const most = 131_072
  for (let i = 0; i < most + 1; i++) views.isNew(...link, `caller-${i}`, 0)
  t.equal(views.isNew(...link, `caller-${most}`, 0), false)
  t.equal(views.isNew(...link, 'caller-0', 0), true, 'only the first was forgotten')
  t.equal(views.isNew(...link, 'caller-0', -HOUR_MS), true, 'a clock was set back')
})

t.test('what is said of a caller is what a list of all that are remembered would say', async () => {
  const step = fc.record({
    link: fc.constantFrom('a', 'b', 'ab'),
    caller: fc.constantFrom('', 'b', '1', '2', '3', '4', '5', '6', '7', '8'),
    afterMs: fc.constantFrom(0, 0, 1, 1_000, HOUR_MS - 1_000, HOUR_MS, -HOUR_MS),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), fc.constantFrom(1, 2, 4, 16, 64), (steps, most) => {
      const views = createViews(most)
      let remembered: { key: string; atMs: number }[] = []
      let nowMs = 0
      return steps.every(({ link, caller, afterMs }) => {
        nowMs += afterMs
        const key = `${link} ${caller}`
        const isKnown = remembered.some((one) => one.key === key && Math.abs(nowMs - one.atMs) < HOUR_MS)
        if (!isKnown) {
          remembered = [...remembered.filter((one) => one.key !== key), { key, atMs: nowMs }].slice(-most)
        }
        return views.isNew(...views.markOf(link), caller, nowMs) === !isKnown
      })
    }),
  )
})

t.test('callers of many links are told apart while the room for them grows', async (t) => {
  const views = createViews()
  const all = Array.from(
    { length: 20_000 },
    (_, i) => [`link-${i % 200}`, `203.0.${i % 256}.${i >> 8}`] as const,
  )
  t.ok(all.every(([link, caller]) => views.isNew(...views.markOf(link), caller, 0)))
  t.notOk(all.some(([link, caller]) => views.isNew(...views.markOf(link), caller, 1)))
})

t.test('a caller is known for an hour in any year that a clock is likely to say', async (t) => {
  const views = createViews()
  for (const year of [1970, 2019, 2026, 2038, 2039, 2070]) {
    const atMs = Date.UTC(year, 0, 20)
    const mark = views.markOf(`link of ${year}`)
    t.equal(views.isNew(...mark, 'caller', atMs), true)
    t.equal(views.isNew(...mark, 'caller', atMs + HOUR_MS - 1), false, `${year}`)
    t.equal(views.isNew(...mark, 'caller', atMs + HOUR_MS), true)
  }
})
