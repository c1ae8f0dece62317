import fc from 'fast-check'
import t from 'tap'
import { SeenLink, Views } from './views.ts'

const HOUR_MS = 3_600_000

t.test('however many callers come, few are remembered', async (t) => {
  const link = new SeenLink(new Views(), 'link')
  const most = 131_072
  for (let i = 0; i < most + 1; i++) link.isNew(`caller-${i}`, 0)
  t.equal(link.isNew(`caller-${most}`, 0), false)
  t.equal(link.isNew(`caller-1`, 0), false)
  t.equal(link.isNew('caller-0', 0), true, 'only the first was forgotten')
  t.equal(link.isNew('caller-0', -HOUR_MS), true, 'a clock was set back')
})

t.test(
  'what is said of a caller is what a list of all that are remembered would say, and who came last to each',
  async () => {
    const step = fc.record({
      link: fc.constantFrom('a', 'b', 'ab'),
      caller: fc.constantFrom('', 'b', '1', '2', '3', '4', '5', '6', '7', '8'),
      afterMs: fc.constantFrom(0, 0, 0, 1_000, HOUR_MS - 2_000, HOUR_MS - 1_000, HOUR_MS, -HOUR_MS),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), fc.constantFrom(1, 2, 4, 16, 64), (steps, most) => {
        const links = linksOf(new Views(most))
        const last = new Map<string, { key: string; atMs: number }>()
        let remembered: { key: string; atMs: number }[] = []
        let nowMs = 0
        return steps.every(({ link, caller, afterMs }) => {
          nowMs += afterMs
          const key = `${link} ${caller}`
          const isSince = (one: { key: string; atMs: number }, withinMs: number) =>
            one.key === key && Math.abs(nowMs - one.atMs) < withinMs
          const known = last.get(link)
          // Times are whole seconds here, and in the last second of the caller's hour the list decides.
          const isLast = known !== undefined && isSince(known, HOUR_MS - 1_000)
          const isKnown = isLast || remembered.some((one) => isSince(one, HOUR_MS))
          if (!isKnown) {
            last.set(link, { key, atMs: nowMs })
            remembered = [...remembered.filter((one) => one.key !== key), { key, atMs: nowMs }].slice(-most)
          }
          return links(link).isNew(caller, nowMs) === !isKnown
        })
      }),
    )
  },
)

t.test('callers of many links are told apart while the room for them grows', async (t) => {
  const links = linksOf(new Views())
  const all = Array.from(
    { length: 20_000 },
    (_, i) => [`link-${i % 200}`, `203.0.${i % 256}.${i >> 8}`] as const,
  )
  t.ok(all.every(([link, caller]) => links(link).isNew(caller, 0)))
  t.notOk(all.some(([link, caller]) => links(link).isNew(caller, 1)))
})

t.test('a caller is known for an hour in any year that a clock is likely to say', async (t) => {
  const views = new Views()
  for (const year of [1970, 2019, 2026, 2038, 2039, 2070]) {
    const atMs = Date.UTC(year, 0, 20)
    const link = new SeenLink(views, `link of ${year}`)
    t.equal(link.isNew('caller', atMs), true)
    t.equal(link.isNew('caller', atMs + HOUR_MS - 1), false, `${year}`)
    t.equal(link.isNew('caller', atMs + HOUR_MS), true)
  }
})

t.test('another caller in between changes nothing, at any millisecond of the hour', async () => {
  const at = fc.integer({ min: 0, max: 2 * HOUR_MS })
  fc.assert(
    fc.property(fc.nat(999), at, at, (startMs, otherMs, againMs) => {
      const link = new SeenLink(new Views(), 'a')
      const alone = new SeenLink(new Views(), 'a')
      for (const one of [link, alone]) one.isNew('1', startMs)
      link.isNew('2', startMs + otherMs)
      return link.isNew('1', startMs + againMs) === alone.isNew('1', startMs + againMs)
    }),
  )
})

function linksOf(views: Views): (id: string) => SeenLink {
  const links = new Map<string, SeenLink>()
  return (id) => {
    let link = links.get(id)
    if (link === undefined) links.set(id, (link = new SeenLink(views, id)))
    return link
  }
}
