import t from 'tap'
import { sampleLink } from '../../test/contracts/samples.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

const LINKS = 10_200

t.test('of a large market the document names the popular links, says so, and is made once', async (t) => {
  const f = await startAdmin(t)
  const store = await f.store()
  const { id } = (await f.db.stores.byUsername(store.username))!
  for (let i = 0; i < LINKS; i += 100)
    await Promise.all(
      Array.from({ length: 100 }, (_, n) => f.db.links.create(sampleLink(`link-${i + n}`, id))),
    )
  f.clock.nowMs += 61_000
  const responses = await Promise.all(Array.from({ length: 8 }, () => f.call('GET', '/openapi.json')))
  const [{ body, text }] = responses as [(typeof responses)[0]]
  t.same(new Set(responses.map(({ headers }) => headers['etag'])).size, 1)
  const links = Object.entries<Record<string, object>>(body.paths).filter(([path]) =>
    path.startsWith('/api/link/'),
  )
  t.equal(links.length, 10_000)
  for (const [path, { get, post }] of [links[0]!, links[9_999]!])
    t.match([get, post], [{ 'x-payment-info': { price: { amount: '0.10' } } }, Object], path)
  t.match(body.info.description, /10000 most popular of 10200 paid links\. .*\/discovery\/resources/)
  t.ok(text.length < 12_000_000, `${text.length} characters, which the cache keeps`)
  f.clock.nowMs += 30_000
  t.equal((await f.call('GET', '/openapi.json')).headers['etag'], responses[0]!.headers['etag'], 'kept')
})
