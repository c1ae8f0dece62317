import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { answerWell, responseStatus } from './helpers/api.ts'
import { newBuyer, present, read } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'
import { decimal, fields, iso, type Json, orNull, sameFields, uuid } from './helpers/shapes.ts'

// The marketplace interface, table by table, against the whole product: what it names is there, and of its kind.
const product = await startProduct(t)
const { chains, api, url } = product
const [evm] = chains.both
const account = privateKeyToAccount(generatePrivateKey())

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Json
}

let apiKey = ''
async function call(method: string, path: string, body?: unknown, key = apiKey): Promise<Answer> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(key !== '' && { authorization: `Bearer ${key}` }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === '' ? null : JSON.parse(text) }
}

const data = ({ body }: Answer): Json => body.data

async function signUp(more: object = {}): Promise<Answer> {
  const asked = await call('POST', '/api/agent/auth/nonce', { address: account.address, chain: 'base' }, '')
  const { message } = data(asked)
  const signature = await account.signMessage({ message })
  const body = { address: account.address, chain: 'base', signature, message, ...more }
  return call('POST', '/api/agent/signup', body, '')
}

const storeView = {
  username: String,
  displayName: String,
  storeUrl: String,
  createdBy: 'agent',
  avatarUrl: String,
}

t.test('agent signup: nonce and message, then a store and its key', async (t) => {
  const asked = await call('POST', '/api/agent/auth/nonce', { address: account.address, chain: 'base' }, '')
  t.match(asked, { status: 200, body: { success: true } })
  fields(t, 'nonce', data(asked), { nonce: String, message: String })
  const signed = await signUp({ displayName: 'Tide office' })
  t.match(signed, { status: 201, body: { success: true } })
  fields(t, 'signup', data(signed), { store: Object, apiKey: String, apiKeyPrefix: String })
  fields(t, 'store', data(signed).store, storeView)
  t.match(data(signed).store.username, /^[a-z0-9_]{3,32}$/, 'a name is made where none was given')
  t.ok(data(signed).apiKey.startsWith(data(signed).apiKeyPrefix))
  apiKey = data(signed).apiKey
})

t.test('API keys: listed by their prefix, shown once, five at most', async (t) => {
  const record = {
    id: uuid,
    name: String,
    keyPrefix: String,
    isActive: true,
    lastUsedAt: orNull(iso),
    createdAt: iso,
  }
  const made = await call('POST', '/api/agent/keys', { name: 'second' })
  t.equal(made.status, 201)
  fields(t, 'key', data(made), { id: uuid, name: 'second', keyPrefix: String, apiKey: String })
  const { keys } = data(await call('GET', '/api/agent/keys'))
  t.equal(keys.length, 2)
  for (const key of keys) {
    fields(t, 'key record', key, record)
    t.notOk('apiKey' in key)
  }
  for (let n = 3; n <= 5; n++) t.equal((await call('POST', '/api/agent/keys', { name: `k${n}` })).status, 201)
  t.match(await call('POST', '/api/agent/keys', { name: 'k6' }), {
    status: 409,
    body: { error: { code: 'LIMIT_REACHED' } },
  })
  const gone = await call('DELETE', `/api/agent/keys/${data(made).id}`)
  t.match(gone, { status: 200, body: { success: true } })
  t.equal((await call('GET', '/api/v1/profile', undefined, data(made).apiKey)).status, 401)
})

const profile = {
  ...{ userId: uuid, username: /^[a-z0-9_]{3,32}$/, displayName: String, bio: String, avatarUrl: String },
  ...{ developerModeEnabled: Boolean, createdBy: 'agent', createdAt: iso, updatedAt: iso },
}

t.test('profile: read without a wrapper, changed in part', async (t) => {
  const got = await call('GET', '/api/v1/profile')
  t.equal(got.status, 200)
  fields(t, 'profile', got.body, profile)
  const changed = await call('PATCH', '/api/v1/profile', { username: 'tide_office', bio: 'Tables of tides.' })
  t.equal(changed.status, 200)
  t.match((await call('GET', '/api/v1/profile')).body, { username: 'tide_office', bio: 'Tables of tides.' })
})

const link = {
  ...{
    id: uuid,
    url: String,
    title: String,
    description: orNull(String),
    slug: String,
    price: decimal,
    currency: 'USDC',
  },
  ...{ isPaid: Boolean, isPublic: Boolean, isActive: Boolean, linkType: 'api', isStealth: Boolean },
  ...{ webhookUrl: orNull(String), createdAt: iso },
}
const created = {
  ...{ id: uuid, slug: String, fullUrl: String, privateSlug: null, privateUrl: null, price: decimal },
  ...{ currency: 'USDC', linkType: 'api', createdAt: iso },
}
let paidUrl = ''
let sale = { purchaseId: '', reviewToken: '' }
let buyerWallet = ''

t.test('links: made, listed, read, changed, deleted softly', async (t) => {
  const made = await call('POST', '/api/v1/links', {
    ...{
      url: `${api.url}/tides`,
      title: 'Tides',
      description: 'High and low',
      slug: 'tides',
      price: '0.10',
      isPublic: true,
    },
  })
  t.match(made, { status: 201, body: { success: true } })
  fields(t, 'created', data(made), created)
  t.equal(data(made).fullUrl, `${url}/api/link/tide_office/tides`)
  paidUrl = data(made).fullUrl

  const stealth = await call('POST', '/api/v1/links', {
    url: `${api.url}/s`,
    title: 'Secret',
    price: '0.1',
    isStealth: true,
  })
  fields(t, 'stealth', data(stealth), { ...created, privateSlug: String, privateUrl: /^http/ })

  const free = await call('POST', '/api/v1/links', { url: `${api.url}/free`, title: 'Free' })
  t.equal(Number(data(free).price), 0, 'a price that is left out is 0')
  t.ok(data(free).slug.length >= 3, 'a slug is made')

  const { links } = data(await call('GET', '/api/v1/links'))
  t.equal(links.length, 3)
  for (const one of links) fields(t, 'link', one, link)
  const path = `/api/v1/links/${data(made).id}`
  fields(t, 'link', data(await call('GET', path)), { ...link, isPaid: true, isPublic: true, isActive: true })
  t.match(await call('PATCH', path, { title: 'Tide tables' }), { status: 200, body: { success: true } })
  t.equal(data(await call('GET', path)).title, 'Tide tables')
  const gone = await call('DELETE', `/api/v1/links/${data(free).id}`)
  t.match(gone, { status: 200, body: { success: true } })
  t.equal((await fetch(data(free).fullUrl)).status, 404)

  const enabled = await call('POST', `${path}/re-enable`)
  t.match(enabled, { status: 200, body: { success: true, message: String } }, 'of one that is not suspended')
  t.match(await call('POST', '/api/v1/links', { url: `${api.url}/x`, title: 'x', slug: 'tides' }), {
    ...{ status: 409, body: { success: false, error: { code: 'SLUG_ALREADY_EXISTS' } } },
  })
  t.match(await call('POST', '/api/v1/links', { url: 'http://127.0.0.1:9/', title: 'away', price: '1' }), {
    ...{ status: 422, body: { success: false, error: { code: 'API_NOT_RESPONDING' } } },
  })
  for (const bad of [
    { title: 'x'.repeat(201) },
    { description: 'x'.repeat(501) },
    { url: 'nowhere' },
    { price: '-1' },
  ])
    t.match(await call('POST', '/api/v1/links', { url: `${api.url}/x`, title: 'x', ...bad }), {
      ...{ status: 400, body: { success: false, error: { code: 'VALIDATION_ERROR' } } },
    })
})

t.test('public store: profile and links, without a wrapper', async (t) => {
  const { status, body } = await call('GET', '/api/store/tide_office', undefined, '')
  t.equal(status, 200)
  fields(t, 'public store', body, { profile: Object, links: Array })
  fields(t, 'profile', body.profile, {
    username: 'tide_office',
    displayName: 'Tide office',
    bio: String,
    avatarUrl: String,
  })
  const shown = {
    id: uuid,
    title: 'Tide tables',
    slug: 'tides',
    price: decimal,
    currency: 'USDC',
    linkType: 'api',
  }
  t.equal(body.links.length, 1, 'what is not public is not listed')
  fields(t, 'link', body.links[0], shown)
})

t.test('calling a paid link: 402, then the answer with its purchase', async (t) => {
  const offered = await call('GET', '/api/link/tide_office/tides', undefined, '')
  t.equal(offered.status, 402)
  const header = offered.headers.get('payment-required')!
  t.strictSame(
    JSON.parse(Buffer.from(header, 'base64').toString()),
    offered.body,
    'header and body say the same',
  )
  fields(t, '402', offered.body, { x402Version: 2, resource: Object, accepts: Array, error: String })
  fields(t, 'resource', offered.body.resource, { url: paidUrl, description: String, mimeType: String })
  for (const entry of offered.body.accepts)
    fields(t, 'entry', entry, {
      ...{ scheme: 'exact', network: /^(eip155:\d+|solana:\w+)$/, amount: '100000', payTo: String },
      ...{ asset: String, maxTimeoutSeconds: Number, extra: Object },
    })
  const accepted = offered.body.accepts.find(({ network }: Json) => network === evm.network)
  fields(t, 'EVM extra', accepted.extra, { name: String, version: String, decimals: 6 })
  t.equal(accepted.payTo.toLowerCase(), account.address.toLowerCase())

  const buyer = await newBuyer(chains, evm)
  const payment = await buyer.sign(paidUrl)
  const bought = await present(paidUrl, payment)
  t.equal(bought.status, 200, bought.text)
  sameFields(t, 'paid answer', bought.body, ['data', '_svc'])
  sameFields(t, '_svc', bought.body._svc, ['purchaseId', 'reviewToken'])
  const replayed = await present(`${paidUrl}?other=1`, payment)
  t.match(replayed, { status: 409, body: { error: { code: 'payment_already_used' } } }, 'replay protection')
  sale = bought.body._svc!
  buyerWallet = buyer.address

  t.match((await read(await fetch(paidUrl))).status, 402)
  t.match(await present(paidUrl, 'bm90aGluZw=='), {
    status: 400,
    body: { error: { code: 'invalid_payment' } },
  })
  const cheap = await buyer.sign(paidUrl, undefined, { amount: '1' })
  t.match(await present(paidUrl, cheap), {
    status: 402,
    body: {
      success: false,
      error: { code: 'invalid_payment', reason: /value_mismatch/ },
      accepts: [{ amount: String }],
    },
  })
  api.answerWith(responseStatus(503))
  const failed = await present(`${paidUrl}?n=1`, await buyer.sign(`${paidUrl}?n=1`))
  api.answerWith(answerWell)
  t.match(failed, { status: 502, body: { error: { code: 'upstream_error' } } })
})

t.test('reviews use the review token', async (t) => {
  const { purchaseId, reviewToken: token } = sale
  const review = { purchaseId, token, wallet: buyerWallet, positive: true, comment: 'Right to the minute.' }
  const made = await call('POST', '/api/reviews', review, '')
  t.equal(made.status, 201)
  sameFields(t, 'review', made.body, ['reviewId'])
  const { body } = await call('GET', '/api/reviews?username=tide_office&slug=tides', undefined, '')
  fields(t, 'review', body.reviews[0], {
    id: uuid,
    positive: true,
    comment: String,
    wallet: String,
    createdAt: iso,
  })
  t.strictSame(body.stats, { total: 1, positive: 1, negative: 0, rating: 100 })
})

t.test('discovery: results, pagination, meta, without a wrapper', async (t) => {
  const { status, body } = await call('GET', '/api/discover?q=tide&sort=price_asc&limit=5', undefined, '')
  t.equal(status, 200)
  sameFields(t, 'discovery', body, ['results', 'pagination', 'meta'])
  t.strictSame(body.pagination, { total: 1, limit: 5, offset: 0, hasMore: false })
  fields(t, 'meta', body.meta, { responseTime: /^\d+(\.\d+)?ms$/ })
  fields(t, 'result', body.results[0], {
    ...{
      id: uuid,
      title: 'Tide tables',
      description: 'High and low',
      endpoint: new URL(paidUrl).pathname,
      url: paidUrl,
      price: '0.10',
      currency: 'USDC',
    },
    ...{ type: 'api', seller: Object, stats: Object },
  })
  fields(t, 'seller', body.results[0].seller, { username: 'tide_office', displayName: 'Tide office' })
  fields(t, 'stats', body.results[0].stats, { buyers: Number, reviews: Number, rating: orNull(Number) })
  t.equal((await call('GET', '/api/discover', undefined, '')).body.pagination.limit, 20)
  t.equal((await call('GET', '/api/discover?limit=100', undefined, '')).status, 200)
  t.equal((await call('GET', '/api/discover?type=standard', undefined, '')).body.pagination.total, 0)
})

t.test('stats: views, buyers and revenue of a period', async (t) => {
  for (const period of ['7d', '30d', '90d', 'all']) {
    const stats = data(await call('GET', `/api/v1/stats?period=${period}`))
    fields(t, 'stats', stats, { period, views: Number, buyers: 1, revenue: '0.100000000000000000' })
  }
  t.equal(data(await call('GET', '/api/v1/stats')).period, '30d')
  t.equal((await call('GET', '/api/v1/stats?period=1y')).status, 400)
})

t.test('limits are told with every answer, and a withdrawal says why there is none', async (t) => {
  const { headers } = await call('GET', '/api/v1/links')
  t.match(headers.get('x-ratelimit-remaining'), /^\d+$/)
  t.ok(Number(headers.get('x-ratelimit-reset')) * 1000 > Date.now() - 1_000)
  t.equal(
    (
      await call('POST', '/api/v1/withdrawals', {
        amount: '1',
        walletAddress: account.address,
        chain: 'base',
      })
    ).status,
    409,
  )
})

t.test('errors: wrong key, unknown link, bad address, text that nobody signed', async (t) => {
  const failures: readonly (readonly [number, string, Answer])[] = [
    [401, 'UNAUTHORIZED', await call('GET', '/api/v1/profile', undefined, '')],
    [401, 'UNAUTHORIZED', await call('GET', '/api/v1/profile', undefined, 'tg_live_wrong')],
    [404, 'LINK_NOT_FOUND', await call('GET', '/api/v1/links/00000000-0000-4000-8000-000000000000')],
    [
      400,
      'INVALID_ADDRESS',
      await call('POST', '/api/agent/auth/nonce', { address: '0x1', chain: 'base' }, ''),
    ],
    [400, 'VALIDATION_ERROR', await call('POST', '/api/agent/auth/nonce', { chain: 'base' }, '')],
  ]
  for (const [status, code, response] of failures) {
    t.equal(response.status, status, code)
    fields(t, code, response.body, { success: false, error: Object })
    fields(t, code, response.body.error, { code, message: String })
  }
})
