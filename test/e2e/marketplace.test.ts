import t from 'tap'
import { newBuyer, read } from './helpers/buyers.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, url } = product
const json = async (path: string, init?: RequestInit) => {
  const response = await fetch(`${url}${path}`, init)
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  return { status: response.status, headers: response.headers, body: (await response.json()) as any }
}

t.test(
  'a stranger finds a link, buys it with the public client, reviews it, and others read that',
  async (t) => {
    const inputSchema = { type: 'object', properties: { city: { type: 'string', examples: ['Oslo'] } } }
    const described = {
      title: 'Tide tables',
      isPublic: true,
      methods: ['GET'],
      inputSchema,
      outputExample: { m: 2.1 },
    }
    const address = await product.addLink('tides', '0.01', described)
    const [found] = (await json('/api/discover?q=tide')).body.results
    t.match(found, { url: address, price: '0.01', stats: { buyers: 0, reviews: 0, rating: null } })

    const offer = await json(new URL(address).pathname)
    t.equal(offer.status, 402)
    const [listed] = (await json('/discovery/resources')).body.items
    t.strictSame(listed.accepts, offer.body.accepts, 'the terms of the list are those of the 402')
    t.strictSame(listed.extensions.bazaar, offer.body.extensions.bazaar)
    t.strictSame(JSON.parse(atob(offer.headers.get('payment-required')!)), offer.body)

    for (const chain of chains.both) {
      const buyer = await newBuyer(chains, chain)
      const bought = await read(await buyer.fetchV2(found.url))
      t.equal(bought.status, 200, `${chain.name} ${bought.text}`)
      const { purchaseId, reviewToken } = bought.body._svc!
      const body = { purchaseId, token: reviewToken, wallet: buyer.address, positive: chain.name === 'evm' }
      const review = () =>
        json('/api/reviews', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
      t.match(await review(), { status: 201, body: { reviewId: /^[\w-]{36}$/ } })
      t.match(await review(), { status: 409, body: { error: { code: 'ALREADY_REVIEWED' } } })
    }
    const [username, slug] = new URL(address).pathname.split('/').slice(-2)
    const { stats } = (await json(`/api/reviews?username=${username}&slug=${slug}`)).body
    t.strictSame(stats, { total: 2, positive: 1, negative: 1, rating: 50 })
    // Each question has an answer of its own in the cache.
    let limit = 1
    await eventually(async () => {
      const { results } = (await json(`/api/discover?q=tide&limit=${++limit}`)).body
      return results[0].stats.buyers === 2 ? true : undefined
    })
    t.match((await json(`/api/discover?q=tide&minRating=50`)).body.results, [
      { stats: { buyers: 2, reviews: 2, rating: 50 } },
    ])
  },
)

t.test('a stealth link is in none of the lists', async (t) => {
  await product.addLink('hidden-one', '0.01', { title: 'Hidden one', isStealth: true, isPublic: true })
  for (const path of [
    '/api/discover?q=hidden',
    '/discovery/search?query=hidden',
    '/llms.txt',
    '/.well-known/x402',
  ])
    t.notMatch(await (await fetch(`${url}${path}`)).text(), /hidden-one/i, path)
})
