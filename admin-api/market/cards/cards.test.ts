import t from 'tap'
import { isTollgateError } from '../../../core/errors/error.ts'
import { type Fixture, startAdmin } from '../../../test/helpers/admin-api/startAdmin.ts'
import type { Card } from './card.ts'
import { readCardFont } from './cardFont.ts'
import { createCardPainter } from './cardRoutes.ts'
import { drawCard } from './drawCard.ts'

t.setTimeout(120_000)

async function addLink(f: Fixture, key: string, more: object): Promise<Record<string, string>> {
  const url = await f.seller()
  const body = { url, title: 'Weather', isPublic: true, price: '0.10', ...more }
  return (await f.call('POST', '/api/v1/links', { key, body })).body.data
}

const cardOf = (text: string) =>
  /<meta property="og:image" content="https:\/\/pay\.example([^"]+)"/.exec(text)![1]!

t.test(
  'every public page names a card of its own: a PNG of 1200 × 630 that a browser may keep',
  async (t) => {
    const f = await startAdmin(t)
    const { key, username } = await f.store()
    const { slug } = await addLink(f, key, {})
    const seen = new Set<string>()
    for (const path of ['/', `/${username}`, `/${username}/${slug}`]) {
      const { text } = await f.call('GET', path)
      t.match(text, `<link rel="canonical" href="https://pay.example${path}"`)
      t.match(text, `<meta property="og:url" content="https://pay.example${path}"`)
      t.match(text, '<meta name="twitter:card" content="summary_large_image"')
      const { statusCode, rawPayload, headers } = await f.admin.inject(cardOf(text))
      t.equal(statusCode, 200, path)
      t.match(headers, { 'content-type': 'image/png', 'x-content-type-options': 'nosniff' })
      t.same([rawPayload.readUInt32BE(16), rawPayload.readUInt32BE(20)], [1_200, 630])
      seen.add(String(headers.etag))
      const again = { url: cardOf(text), headers: { 'if-none-match': String(headers.etag) } }
      t.equal((await f.admin.inject(again)).statusCode, 304)
    }
    t.equal(seen.size, 3)
  },
)

t.test("a card's address changes with what it says, and with nothing else", async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const { slug, id } = await addLink(f, key, {})
  const shown = async () => cardOf((await f.call('GET', `/${username}/${slug}`)).text)
  const before = await shown()
  await f.call('PATCH', `/api/v1/links/${id}`, { key, body: { tags: ['live'] } })
  t.equal(await shown(), before)
  await f.call('PATCH', `/api/v1/links/${id}`, { key, body: { price: '0.20' } })
  t.not(await shown(), before)
})

t.test('what strangers may not see has no card, and the answer is that of what never was', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const secret = await addLink(f, key, { isStealth: true })
  const unlisted = await addLink(f, key, { isPublic: false })
  const deleted = await addLink(f, key, {})
  await f.call('DELETE', `/api/v1/links/${deleted['id']}`, { key })
  const notified = async (path: string) => {
    const { statusCode, body } = await f.admin.inject(path)
    const { requestId, ...error } = JSON.parse(body).error
    return { statusCode, error }
  }
  const never = await notified('/nobody_here/nothing/card.png')
  t.match(never, { statusCode: 404, error: { code: 'NOT_FOUND' } })
  const slugs = [secret['slug'], secret['privateSlug'], unlisted['slug'], deleted['slug'], 'never']
  for (const slug of slugs) t.same(await notified(`/${username}/${slug}/card.png`), never)
  t.same(await notified('/nobody_here/card.png'), never)
})

const plain: Card = {
  ...{ serviceName: 'Tollgate', heading: 'Weather', plainHeading: 'northwind/weather', about: 'Of a city.' },
  ...{
    seller: { name: 'Northwind', plainName: '@northwind' },
    price: '0.01',
    bound: null,
    foot: ['Base', 'Solana'],
  },
}

t.test('letters that the font lacks are not left out of a title: its address stands there', async (t) => {
  const font = readCardFont()
  t.match(drawCard({ ...plain, heading: 'Wetter 東京' }, font), '>northwind/weather<')
  t.match(drawCard({ ...plain, heading: '☂️ Weather 😀' }, font), '>Weather<')
  const long = drawCard({ ...plain, heading: '東京', plainHeading: 'agent_v4kup36jh6/weather' }, font)
  t.match(long, /agent_v4kup36jh6[/]<[\s\S]*>weather</, 'which is broken behind its slash')
})

t.test(
  'a thousand cards at once: as many as may wait are painted, the others are told when to ask again',
  async (t) => {
    const painter = createCardPainter({ maxWaiting: 3 })
    t.teardown(() => painter.close())
    const cards = Array.from({ length: 1_000 }, (_, i) => ({ ...plain, heading: `Link ${i}` }))
    const asked = [...cards, cards[0]!].map((card) => painter.paint(card))
    const ends = await Promise.allSettled(asked)
    const painted = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
    t.equal(painted.length, 4, 'three, and whoever wanted one of them')
    t.equal(painted[3], painted[0], 'painted once')
    const refusals = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
    t.ok(refusals.every((error) => isTollgateError(error) && error.code === 'SERVICE_BUSY'))
    t.ok(refusals.every(({ status, retryAfterSeconds }) => status === 503 && retryAfterSeconds > 0))
    t.ok(await painter.paint(cards[999]!), 'there is room again')
  },
)
