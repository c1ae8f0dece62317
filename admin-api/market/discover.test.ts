import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Change } from '../../core/ports/store/changes.ts'
import { sampleReview } from '../../test/contracts/reviews.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { publicUrl, startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { type Answer, createResponseCache } from '../http/responses.ts'

/** Two sellers and their links. The origin of each link contains a secret. */
async function market(t: Test, limits = {}) {
  const f = await startAdmin(t, { limits })
  const store = await f.store()
  const origin = await f.seller()
  const create = async (title: string, more: object = {}) => {
    f.clock.nowMs += 1_000
    const body = { url: `${origin}?key=s3cr3t-of-the-seller`, title, isPublic: true, price: '0.10', ...more }
    const response = await f.call('POST', '/api/v1/links', { key: store.key, body })
    if (response.status !== 201) throw new Error(response.text)
    return response.body.data as { id: string; slug: string; fullUrl: string }
  }
  const discover = (query = '', options = {}) =>
    f.call('GET', `/api/discover${query && `?${query}`}`, options)
  const titles = async (query = '') =>
    (await discover(query)).body.results.map((one: { title: string }) => one.title) as string[]
  const recount = async () => {
    while ((await f.db.discovery.recount(f.clock.nowMs)) > 0);
  }
  return { f, store, create, discover, titles, recount }
}

t.test('a link is found with exactly the fields of the document, without an envelope', async (t) => {
  const { f, store, create, discover, recount } = await market(t)
  const { id, fullUrl } = await create('Weather', {
    description: 'Of a city',
    upstreamHeaders: { 'x-key': 's3cr3t' },
  })
  const buyer = '0x00000000000000000000000000000000000000b1'
  for (let i = 0; i < 2; i++)
    await sell(f.db, { storeId: store.id, linkId: id, amount: '0.1', atMs: f.clock.nowMs, buyer })
  for (const isPositive of [true, true, false])
    await f.db.reviews.add(sampleReview(`${Math.random()}`, id, { storeId: store.id, isPositive }))
  await recount()
  const { status, body, text, headers } = await discover()
  t.equal(status, 200)
  t.match(body.meta.responseTime, /^\d+ms$/)
  t.same(
    { ...body, meta: null },
    {
      results: [
        {
          id,
          title: 'Weather',
          description: 'Of a city',
          endpoint: `/api/link/${store.username}/weather`,
          url: `${publicUrl}/api/link/${store.username}/weather`,
          price: '0.10',
          currency: 'USDC',
          type: 'api',
          seller: { username: store.username, displayName: store.username },
          stats: { buyers: 1, reviews: 3, rating: 67 },
        },
      ],
      pagination: { total: 1, limit: 20, offset: 0, hasMore: false },
      meta: null,
    },
  )
  t.equal(body.results[0].url, fullUrl)
  t.notMatch(text, /s3cr3t|127\.0\.0\.1/, 'nothing of the origin')
  t.equal(headers['access-control-allow-origin'], '*')
  t.equal(headers['cache-control'], 'public, max-age=60')
})

t.test('what is not public, or does not work, is not found', async (t) => {
  const { f, store, create, discover } = await market(t)
  await create('Unlisted', { isPublic: false })
  await create('Stealth', { isStealth: true })
  const gone = await create('Gone')
  await f.call('DELETE', `/api/v1/links/${gone.id}`, { key: store.key })
  const suspended = await create('Suspended')
  const suspension = { sinceMs: 1, reason: 'down', cooldownUntilMs: 2, permanent: false }
  await f.db.links.setSuspension(suspended.id, suspension, 1)
  t.same((await discover()).body.results, [])
})

t.test('the parameters of the document, and those beside them', async (t) => {
  const { create, titles, discover } = await market(t)
  await create('Free words', { price: '0', tags: ['words'] })
  await create('Cheap maps', { price: '0.1', description: 'Of any city' })
  await create('A file', { price: '0.3', linkType: 'standard' })
  await create('Dear maps', { price: '12.5', tags: ['maps', 'city-maps'] })
  const all = ['Dear maps', 'A file', 'Cheap maps', 'Free words']
  const cases: [query: string, expected: string[]][] = [
    ['', all],
    ['sort=popular', all],
    ['sort=newest', all],
    ['sort=price_asc', [...all].reverse()],
    ['sort=price_desc', all],
    ['q=maps', ['Dear maps', 'Cheap maps']],
    ['q=maps&sort=price_asc', ['Cheap maps', 'Dear maps']],
    ['q=map+any', ['Cheap maps']],
    ['q=', all],
    ['q=%20', all],
    ['q=!!!', []],
    ['type=standard', ['A file']],
    ['type=', all],
    ['minPrice=0.3', ['Dear maps', 'A file']],
    ['maxPrice=0.1', ['Cheap maps', 'Free words']],
    ['minPrice=0.1&maxPrice=0.3', ['A file', 'Cheap maps']],
    ['minPrice=9&maxPrice=1', []],
    ['free=true', ['Free words']],
    ['free=false', ['Dear maps', 'A file', 'Cheap maps']],
    ['tag=maps', ['Dear maps']],
    ['network=base', ['Dear maps', 'A file', 'Cheap maps']],
    ['network=eip155:84532', ['Dear maps', 'A file', 'Cheap maps']],
    ['network=solana', []],
    ['seller=nobody', []],
    ['minRating=1', []],
    ['unknown=1&utm_source=x', all],
    ['limit=2', all.slice(0, 2)],
    ['limit=2&offset=1', all.slice(1, 3)],
    ['offset=99', []],
    ['limit=1000', all],
    ['limit=99999999999999999999', all],
  ]
  for (const [query, expected] of cases) t.same(await titles(query), expected, query)
  t.equal((await discover('limit=101')).body.pagination.limit, 100)
  const { body } = await discover('limit=2&offset=1')
  t.same(body.pagination, { total: 4, limit: 2, offset: 1, hasMore: true })
  t.same((await discover('limit=2&offset=2')).body.pagination.hasMore, false)
})

t.test('what cannot be meant is a 400 that names the parameter', async (t) => {
  const { discover } = await market(t)
  const cases = [
    ...['type=file', 'sort=best', 'sort=relevance', 'limit=0', 'limit=x', 'limit=1.5', 'limit=Infinity'],
    ...['offset=-1', 'offset=1e9', 'minPrice=-1', 'minPrice=1e9', 'maxPrice=0x1', 'maxPrice=NaN', 'free=1'],
    ...['network=eip155:1', 'network=bitcoin', 'minRating=101', 'minRating=-1', `q=${'x'.repeat(201)}`],
    ...['q=a&q=b', 'limit=1&limit=2', 'type[a]=api&type=x'],
  ]
  for (const query of cases) {
    const { status, body } = await discover(query)
    t.equal(status, 400, query)
    t.equal(body.error.code, 'VALIDATION_ERROR', query)
    t.equal(body.error.details[0].path, query.split(/[=[]/)[0], query)
  }
})

t.test('an answer is kept for a minute by what it asks for, and not when a link in it changes', async (t) => {
  const { f, store, create, titles, discover } = await market(t)
  await create('One')
  const two = await create('Two', { price: '2' })
  t.same(await titles(), ['Two', 'One'])
  t.same(await titles('minPrice=1'), ['Two'])
  await create('Three')
  t.same(await titles(), ['Two', 'One'], 'a new one comes within the minute')
  t.same(await titles('utm_source=x&limit=20&offset=0&sort=popular'), ['Two', 'One'], 'the same question')
  t.same(await titles('limit=19'), ['Three', 'Two', 'One'], 'another question')
  await f.call('DELETE', `/api/v1/links/${two.id}`, { key: store.key })
  t.same(await titles(), ['Three', 'One'])
  t.same(await titles('minPrice=1'), [])
  await create('Four')
  t.same(await titles(), ['Three', 'One'])
  f.clock.nowMs += 60_000
  t.same(await titles(), ['Four', 'Three', 'One'])
  const seller = (await discover()).body.results[0].seller
  await f.call('PATCH', '/api/v1/profile', { key: store.key, body: { displayName: 'Another name' } })
  t.same((await discover()).body.results[0].seller, { ...seller, displayName: 'Another name' })
})

t.test('who asks after a change does not get what was read before it', async (t) => {
  let change: (change: Change) => void = () => {}
  const cache = createResponseCache({
    clock: { now: () => 0 },
    onChange: (listener) => {
      change = listener
      return () => {}
    },
  })
  t.teardown(() => cache.close())
  const before = Promise.withResolvers<Answer>()
  const first = cache.of('all', () => before.promise)
  const joined = cache.of('all', () => t.fail('one is under way') as never)
  change({ kind: 'link', username: 'ann', slug: 'gone' })
  const after = Promise.withResolvers<Answer>()
  const second = cache.of('all', () => after.promise)
  before.resolve({ body: 'with the link', addresses: ['ann/gone'] })
  t.equal((await first).body, 'with the link')
  t.equal((await joined).body, 'with the link')
  const third = cache.of('all', () => t.fail('another one is under way') as never)
  after.resolve({ body: 'without', addresses: [] })
  t.equal((await second).body, 'without')
  t.equal((await third).body, 'without')
})

t.test('who has the answer hears that it is the same', async (t) => {
  const { f, create, discover } = await market(t)
  await create('One')
  const { headers } = await discover()
  const etag = String(headers['etag'])
  t.match(etag, /^W\/"[\w-]{22}"$/)
  for (const known of [etag, `"x", ${etag}`, '*', etag.slice(2)]) {
    const { status, text, headers } = await discover('', { headers: { 'if-none-match': known } })
    t.equal(status, 304, known)
    t.equal(text, '')
    t.equal(headers['etag'], etag)
  }
  t.equal((await discover('', { headers: { 'if-none-match': '"x"' } })).status, 200)
  await create('Two')
  f.clock.nowMs += 60_000
  t.equal((await discover('', { headers: { 'if-none-match': etag } })).status, 200, 'another answer')
})

t.test('sixty searches a minute of one client; other methods are not allowed', async (t) => {
  const { discover, f } = await market(t, { discoverPerMinute: 60 })
  for (let i = 0; i < 60; i++) t.equal((await discover(`limit=${i + 1}`)).status, 200)
  t.equal((await discover()).status, 429)
  t.equal((await discover('', { ip: '203.0.113.9' })).status, 200)
  t.equal((await f.call('POST', '/api/discover')).status, 405)
})

const corpus = join(import.meta.dirname, '../../../shared/corpora/blns.json')

t.test(
  'naughty strings find something or nothing',
  { skip: !existsSync(corpus) && 'no corpus' },
  async (t) => {
    const { f, create, discover } = await market(t)
    await create('Anything')
    const operators = [
      '"',
      'a"b',
      'title:',
      'NEAR(a b, 2)',
      '^a',
      'a*',
      '-a',
      'a NOT b',
      '{title}: a',
      'AND',
      '\0',
      'a\0b',
    ]
    const strings: string[] = [...operators, ...JSON.parse(readFileSync(corpus, 'utf8'))]
    for (const name of ['q', 'tag', 'seller', 'network', 'minPrice', 'offset']) {
      for (const text of strings) {
        const { status } = await discover(`${name}=${encodeURIComponent(text.toWellFormed())}`)
        if (status !== 200 && status !== 400) t.fail(`${status} for ${name}=${JSON.stringify(text)}`)
      }
    }
    for (const query of ['q=%00', 'q=%FF', 'q=%', 'q=%E0%A4%A', '%00=1', 'q=+&+=q']) {
      const { status } = await discover(query)
      t.ok(status === 200 || status === 400, query)
    }
    t.same(f.logged, [])
  },
)
