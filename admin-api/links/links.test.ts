import type { ServerResponse } from 'node:http'
import t from 'tap'
import { isTollgateError } from '../../core/errors/error.ts'
import { publicUrl, startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { evmWallet, solanaWallet } from '../../test/helpers/admin-api/wallets.ts'
import { openUpstreamHeaders } from './linkFields.ts'

const unknownId = '00000000-0000-4000-8000-000000000000'
const linkKeys = [
  'id',
  'url',
  'title',
  'description',
  'slug',
  'price',
  'currency',
  'isPaid',
  'isPublic',
  'isActive',
  'linkType',
  'isStealth',
  'privateSlug',
  'webhookUrl',
  'methods',
  'inputSchema',
  'outputExample',
  'tags',
  'iconUrl',
  'responseMode',
  'settle',
  'access',
  'suspension',
  'createdAt',
  'updatedAt',
]

t.test('creating a link answers exactly the documented fields', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const url = await f.seller()
  const { status, body } = await f.call('POST', '/api/v1/links', {
    key,
    body: { url, title: 'Weather API (v2)', price: '0.10' },
  })
  t.equal(status, 201)
  t.same(body, {
    success: true,
    data: {
      id: body.data.id,
      slug: 'weather-api-v2',
      fullUrl: `${publicUrl}/api/link/${username}/weather-api-v2`,
      privateSlug: null,
      privateUrl: null,
      price: '0.10',
      currency: 'USDC',
      linkType: 'api',
      createdAt: new Date(f.clock.nowMs).toISOString(),
    },
  })
  t.same(f.changes.at(-1), { kind: 'link', username, slug: 'weather-api-v2' })
})

t.test('a link is read, listed and changed with exactly its fields', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const full = {
    url,
    title: 'Everything',
    description: 'a\nb',
    slug: 'every-thing',
    price: '1.5',
    isPublic: true,
    isStealth: false,
    webhookUrl: 'https://hooks.example/x',
    methods: ['GET', 'POST'],
    inputSchema: { type: 'object', properties: { constructor: { type: 'string' } } },
    outputExample: [1, { a: null }],
    tags: ['weather', 'eu'],
    iconUrl: 'https://img.example/i.png',
    responseMode: 'raw',
    settle: 'before',
    access: { paidFor: '24h' },
  }
  const created = await f.call('POST', '/api/v1/links', {
    key,
    body: { ...full, upstreamHeaders: { 'X-Token': 'secret-token' } },
  })
  t.equal(created.status, 201, created.text)
  const { id } = created.body.data
  const read = await f.call('GET', `/api/v1/links/${id}`, { key })
  t.same(Object.keys(read.body.data).sort(), [...linkKeys, 'health', 'stats'].sort())
  t.match(read.body.data, {
    ...full,
    currency: 'USDC',
    isPaid: true,
    isActive: true,
    linkType: 'api',
    suspension: null,
  })
  t.match(read.body.data.health, { status: 'healthy', lastStatus: 200 })
  const list = await f.call('GET', '/api/v1/links', { key })
  t.same(Object.keys(list.body.data), ['links'])
  t.same(Object.keys(list.body.data.links[0]).sort(), [...linkKeys, 'stats'].sort())
  for (const { text } of [created, read, list]) t.notMatch(text, /secret-token|x-token|upstreamHeaders/i)

  const stored = await f.db.links.find(id)
  t.notMatch(JSON.stringify(stored), /secret-token/)
  t.same(openUpstreamHeaders(f.sealer, id, stored!.upstreamHeadersSealed), { 'x-token': 'secret-token' })
  t.throws(
    () => openUpstreamHeaders(f.sealer, unknownId, stored!.upstreamHeadersSealed),
    'the id is its context',
  )

  const cleared = await f.call('PATCH', `/api/v1/links/${id}`, {
    key,
    body: {
      description: null,
      isPublic: null,
      isStealth: null,
      webhookUrl: null,
      methods: null,
      inputSchema: null,
      outputExample: null,
      tags: null,
      iconUrl: null,
      responseMode: null,
      settle: null,
      upstreamHeaders: null,
    },
  })
  t.equal(cleared.status, 200, cleared.text)
  t.same(Object.keys(cleared.body.data).sort(), [...linkKeys, 'health', 'stats'].sort())
  t.match(cleared.body.data, {
    description: '',
    isPublic: false,
    webhookUrl: null,
    methods: { length: 0 },
    inputSchema: null,
    outputExample: null,
    tags: { length: 0 },
    iconUrl: null,
    responseMode: 'wrap',
    settle: 'after',
    price: '1.5',
    title: 'Everything',
  })
  t.equal((await f.db.links.find(id))!.upstreamHeadersSealed, null)
})

t.test('an address that cannot be meant is refused, with advice that can be followed', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const refusalOf = async (more: object) => {
    const { status, body } = await f.call('POST', '/api/v1/links', {
      key,
      body: { url, title: 'T', ...more },
    })
    t.equal(status, 400, JSON.stringify(more))
    t.equal(body.error.details.length, 1)
    return body.error.details[0] as { path: string; message: string }
  }
  const withPassword = 'https://me:pass@a.example/'
  t.match(await refusalOf({ url: withPassword }), { path: 'url', message: /upstreamHeaders/ })
  const ofWebhook = await refusalOf({ webhookUrl: withPassword })
  t.match(ofWebhook, { path: 'webhookUrl', message: /user name or password/ })
  t.notMatch(ofWebhook.message, /header/i, 'a webhook has none to put it in')
  for (const path of ['url', 'webhookUrl', 'iconUrl'])
    for (const odd of ['http:///x', 'https:a.example', 'https://?a', 'https://a.example/a b'])
      t.equal((await refusalOf({ [path]: odd })).path, path, `${path} ${odd}`)
  t.match((await refusalOf({ iconUrl: 'https://a.example/a b' })).message, /%20 for a space/)
})

t.test('a stealth link gets 128 random bits as its address, and loses them with the mode', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const url = await f.seller()
  const { body } = await f.call('POST', '/api/v1/links', {
    key,
    body: { url, title: 'Hidden', isStealth: true },
  })
  const { id, privateSlug, privateUrl, fullUrl } = body.data
  t.match(privateSlug, /^[0-9a-f]{32}$/)
  t.equal(privateUrl, `${publicUrl}/api/link/${username}/${privateSlug}`)
  t.equal(fullUrl, privateUrl, 'its slug is no address')
  t.same(f.changes.at(-1), { kind: 'link', username, slug: privateSlug }, 'its slug is no address')

  const open = await f.call('PATCH', `/api/v1/links/${id}`, { key, body: { isStealth: false } })
  t.equal(open.body.data.privateSlug, null)
  t.same(
    f.changes.slice(-2).map((c) => 'slug' in c && c.slug),
    [privateSlug, 'hidden'],
  )
  const again = await f.call('PATCH', `/api/v1/links/${id}`, { key, body: { isStealth: true } })
  t.not(again.body.data.privateSlug, privateSlug)
  const kept = await f.call('PATCH', `/api/v1/links/${id}`, { key, body: { isStealth: true, title: 'x' } })
  t.equal(kept.body.data.privateSlug, again.body.data.privateSlug)
})

t.test('a slug is one of the store: chosen twice it is refused, made up twice it differs', async (t) => {
  const f = await startAdmin(t)
  const [mine, other] = [await f.store(), await f.store()]
  const url = await f.seller()
  const create = (key: string, body: object) =>
    f.call('POST', '/api/v1/links', { key, body: { url, title: 'Same title', ...body } })

  const five = ['1', '2', '3', '4', '5']
  const chosen = await Promise.all(
    five.map((description) => create(mine.key, { slug: 'wanted', description })),
  )
  t.same(chosen.map((a) => a.status).sort(), [201, 409, 409, 409, 409])
  t.ok(chosen.every((a) => a.status === 201 || a.body.error.code === 'SLUG_ALREADY_EXISTS'))
  t.equal((await create(other.key, { slug: 'wanted' })).status, 201)

  const made = await Promise.all(five.map((description) => create(mine.key, { description })))
  t.ok(made.every((a) => a.status === 201))
  t.equal(new Set(made.map((a) => a.body.data.slug)).size, 5)
  t.ok(made.every((a) => /^same-title(-[a-z0-9]{6})?$/.test(a.body.data.slug)))
  for (const title of ['天気', '🦆', 'é', '--', 'ab', 'x'.repeat(200)]) {
    t.match((await create(mine.key, { title })).body.data.slug, /^[a-z0-9-]{3,64}$/)
  }
  const rename = await f.call('PATCH', `/api/v1/links/${made[0]!.body.data.id}`, {
    key: mine.key,
    body: { slug: 'wanted' },
  })
  t.equal(rename.body.error.code, 'SLUG_ALREADY_EXISTS')
})

t.test('prices are decimal strings, kept as they are when USDC can express them', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const create = (price: unknown) =>
    f.call('POST', '/api/v1/links', { key, body: { url, title: 'Priced', price } })
  const good = {
    '0': '0',
    '0.00': '0.00',
    '0.10': '0.10',
    '1': '1',
    '007': '7',
    '00.5': '0.5',
    '0.000001': '0.000001',
    '0.100000000000000000': '0.100000',
    '999999999999.999999': '999999999999.999999',
  }
  for (const [price, kept] of Object.entries(good)) {
    const { status, body } = await create(price)
    t.equal(status, 201, price)
    t.equal(body.data?.price, kept)
  }
  for (const price of [
    '',
    ' ',
    '-1',
    '+1',
    '1e3',
    '.5',
    '1.',
    '0,10',
    '0x1',
    '١',
    'NaN',
    '1.0000000000000000001',
    1,
    null,
    {},
  ]) {
    const { status, body } = await create(price)
    t.equal(status, 400, JSON.stringify(price))
    t.equal(body.error.details[0].path, 'price')
  }
  const fine = await create('0.0000001')
  t.same(fine.body.error.details, [
    {
      path: 'price',
      code: 'too_many_decimals',
      message: 'Expected at most 6 decimals, as USDC has, but this price has 7.',
    },
  ])
  t.equal((await create('1000000000000')).body.error.details[0].code, 'range')
})

t.test('what is wrong with a link is named field by field, with the near miss', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const detail = async (body: object) => {
    const response = await f.call('POST', '/api/v1/links', { key, body: { url, title: 'T', ...body } })
    t.equal(response.status, 400, JSON.stringify(body).slice(0, 80))
    t.equal(response.body.error.code, 'VALIDATION_ERROR')
    t.ok(response.body.error.message.length > 0 && response.body.error.message.length < 500)
    return response.body.error.details[0] as { path: string; code: string; message: string }
  }
  t.match(await detail({ prise: '1' }), { path: 'prise', code: 'unknown_field', message: /"price"/ })
  t.match(await detail({ responseMode: 'warp' }), {
    path: 'responseMode',
    code: 'not_allowed',
    message: /"wrap"\?/,
  })
  t.match(await detail({ methods: ['get'] }), { path: 'methods[0]', message: /Did you mean "GET"/ })
  t.match(await detail({ title: 'x'.repeat(201) }), { path: 'title', code: 'too_long', message: /201/ })
  t.match(await detail({ description: 'x'.repeat(501) }), { path: 'description', code: 'too_long' })
  t.match(await detail({ title: '' }), { path: 'title' })
  t.match(await detail({ slug: 'ab' }), { path: 'slug', code: 'format' })
  t.match(await detail({ slug: 'With_Under' }), { path: 'slug', code: 'format' })
  t.match(await detail({ tags: Array.from({ length: 11 }, (_, i) => `t${i}`) }), { code: 'too_many' })
  t.match(await detail({ inputSchema: { a: 'x'.repeat(20_000) } }), { path: 'inputSchema', code: 'too_long' })
  t.match(await detail({ url: undefined }), { path: 'url', code: 'required' })
  t.match(await detail({ method: 'GET', methods: ['GET'] }), { path: 'method', code: 'conflict' })
  for (const bad of [
    'ftp://x.example/',
    'not a url',
    'http://user:pw@x.example/',
    'http://10.0.0.1/',
    'file:///etc/passwd',
    'http://[::1]/',
    '//x',
  ]) {
    t.match(await detail({ url: bad }), { path: 'url' }, bad)
    t.match(await detail({ webhookUrl: bad }), { path: 'webhookUrl' }, bad)
  }
  t.match(await detail({ iconUrl: 'javascript:alert(1)' }), { path: 'iconUrl' })
  const missing = await f.call('POST', '/api/v1/links', { key })
  t.match(missing.body.error.message, /body is missing/)
})

t.test(
  'headers that belong to the gateway can not be fixed, nor can a value break out of its line',
  async (t) => {
    const f = await startAdmin(t)
    const { key } = await f.store()
    const url = await f.seller()
    const refused: Record<string, string>[] = [
      { Host: 'x' },
      { 'Transfer-Encoding': 'chunked' },
      { connection: 'close' },
      { 'PAYMENT-SIGNATURE': 'x' },
      { 'x-payment': 'x' },
      { 'X-Forwarded-For': '1.2.3.4' },
      { 'content-length': '0' },
      { upgrade: 'websocket' },
      { 'bad name': 'x' },
      { '': 'x' },
      { 'x-a': 'a\r\nx-b: c' },
      { 'x-a': 'ä' },
      { 'x-a': ' a' },
      { 'x-a': 'a', 'X-A': 'b' },
    ]
    for (const upstreamHeaders of refused) {
      const { status, body } = await f.call('POST', '/api/v1/links', {
        key,
        body: { url, title: 'T', upstreamHeaders },
      })
      t.equal(status, 400, JSON.stringify(upstreamHeaders))
      t.equal(body.error.details[0].path, 'upstreamHeaders')
    }
    const accepted = { Authorization: 'Bearer abc', 'X-Api-Key': 'k', Cookie: 'a=b; c=d' }
    const { status } = await f.call('POST', '/api/v1/links', {
      key,
      body: { url, title: 'T', upstreamHeaders: accepted },
    })
    t.equal(status, 201)
  },
)

t.test("a paid link is saved once its API answers, asked with the link's own headers", async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const requests: (string | undefined)[] = []
  let responseStatus = 200
  const url = await f.seller((request, response) => {
    requests.push(request.headers['x-token'] as string | undefined)
    response.writeHead(responseStatus).end()
  })
  const body = { url, title: 'Paid', price: '1', upstreamHeaders: { 'x-token': 'mine' } }
  const create = () =>
    f.call('POST', '/api/v1/links', { key, body: { ...body, description: String(responseStatus) } })
  for (responseStatus of [200, 302, 401, 402, 404, 405]) {
    t.equal((await create()).status, 201, String(responseStatus))
  }
  t.ok(requests.length === 6 && requests.every((token) => token === 'mine'))
  for (responseStatus of [500, 503]) {
    const refused = await create()
    t.equal(refused.status, 422)
    t.equal(refused.body.error.code, 'API_NOT_RESPONDING')
    t.match(refused.body.error.message, new RegExp(`status ${responseStatus}`))
  }
  t.equal((await f.call('GET', '/api/v1/links', { key })).body.data.links.length, 6)

  requests.length = 0
  t.equal((await f.call('POST', '/api/v1/links', { key, body: { ...body, price: '0' } })).status, 201)
  t.same(requests, [], 'a free link is not asked')
})

t.test(
  'a change asks the API again only when url or price change, and a failure changes nothing',
  async (t) => {
    const f = await startAdmin(t)
    const { key } = await f.store()
    let requestCount = 0
    let responseStatus = 200
    const url = await f.seller((_request, response) => {
      requestCount++
      response.writeHead(responseStatus).end()
    })
    const { id } = (await f.call('POST', '/api/v1/links', { key, body: { url, title: 'Paid', price: '1' } }))
      .body.data
    const patch = (body: object) => f.call('PATCH', `/api/v1/links/${id}`, { key, body })
    t.equal(requestCount, 1)
    await patch({ title: 'Other', isPublic: true, description: 'x', price: '1', url })
    t.equal(requestCount, 1)
    await patch({ price: '2' })
    t.equal(requestCount, 2)
    await patch({ url: `${url}?v=2` })
    t.equal(requestCount, 3)
    responseStatus = 500
    const before = (await f.call('GET', `/api/v1/links/${id}`, { key })).body
    const failed = await patch({ price: '3', title: 'Never' })
    t.equal(failed.status, 422)
    t.same((await f.call('GET', `/api/v1/links/${id}`, { key })).body, before)
    t.equal((await patch({ price: '0' })).status, 200, 'a free link needs no check')
  },
)

t.test('a backend that never answers costs less than ten seconds', async (t) => {
  const f = await startAdmin(t, { options: { probeTimeoutMs: 100 } })
  const { key } = await f.store()
  const url = await f.seller(() => {})
  const refused = await f.call('POST', '/api/v1/links', { key, body: { url, title: 'Paid', price: '1' } })
  t.equal(refused.status, 422)
  t.match(refused.body.error.message, /No response within 0.1 s/)
})

t.test('a paid link needs a wallet on a network that can be paid on', async (t) => {
  const f = await startAdmin(t)
  const seller = solanaWallet()
  const { apiKey: key } = (await f.signUp(seller)).body.data
  const url = await f.seller()
  const body = { url, title: 'Paid', price: '1' }
  const refused = await f.call('POST', '/api/v1/links', { key, body })
  t.equal(refused.status, 400)
  t.match(refused.body.error.details[0], {
    path: 'price',
    code: 'no_payout_wallet',
    message: /PATCH \/api\/v1\/profile/,
  })
  t.equal((await f.call('POST', '/api/v1/links', { key, body: { ...body, price: '0' } })).status, 201)
  t.equal((await f.movePayout(key, seller, { base: evmWallet().address })).status, 200)
  t.equal((await f.call('POST', '/api/v1/links', { key, body })).status, 201)
})

t.test('what changes during the health check of another change is not undone by it', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  let requested = Promise.withResolvers<ServerResponse>()
  const slow = await f.seller((_request, response) => requested.resolve(response))
  const url = await f.seller()
  const body = { url, title: 'Weather', isPublic: true, slug: 'weather' }
  const { id } = (await f.call('POST', '/api/v1/links', { key, body })).body.data
  const change = (more: object) => f.call('PATCH', `/api/v1/links/${id}`, { key, body: more })

  const priced = change({ url: slow, price: '1' })
  const probe = await requested.promise
  const hidden = await change({ isStealth: true, description: 'Secret' })
  t.equal(hidden.status, 200)
  probe.end('{}')
  const { status, body: answer } = await priced
  t.equal(status, 200)
  const { privateSlug } = hidden.body.data
  t.match(answer.data, { price: '1', url: slow, isStealth: true, isPublic: false, privateSlug })
  t.equal(answer.data.description, 'Secret')
  t.equal(await f.db.links.served(username, 'weather'), undefined)
  t.match(await f.db.links.served(username, privateSlug), { price: '1' })

  requested = Promise.withResolvers()
  const late = change({ price: '2' })
  const second = await requested.promise
  t.equal((await f.call('DELETE', `/api/v1/links/${id}`, { key })).status, 200)
  second.end('{}')
  t.equal((await late).body.error.code, 'LINK_NOT_FOUND')
  t.match(await f.db.links.find(id), { isActive: false, price: '1' })
})

t.test('a store has so many links at most, and is told what to do about it', async (t) => {
  const f = await startAdmin(t, { options: { maxLinksPerStore: 2 } })
  const { key } = await f.store()
  const url = await f.seller()
  let links = 0
  const create = () => f.call('POST', '/api/v1/links', { key, body: { url, title: `Link ${links++}` } })
  const made = await Promise.all([create(), create(), create()])
  t.same(made.map((a) => a.status).sort(), [201, 201, 409])
  const { error } = made.find((a) => a.status === 409)!.body
  t.equal(error.code, 'LIMIT_REACHED')
  t.match(error.message, /2 active links.* DELETE \/api\/v1\/links\/:id/)
  const { id } = made.find((a) => a.status === 201)!.body.data
  await f.call('DELETE', `/api/v1/links/${id}`, { key })
  t.equal((await create()).status, 201)
})

t.test('links are listed page by page, and who asks without a word has the documented shape', async (t) => {
  const f = await startAdmin(t, { options: { maxLinksPerStore: 200 } })
  const { key } = await f.store()
  const url = await f.seller()
  for (let i = 0; i < 101; i++) {
    // A number may be in the address as well, as that of a port.
    const title = i === 42 ? 'Link forty-two' : `Link ${i}`
    const body = { url, title, isPublic: i % 10 === 0 }
    f.clock.nowMs++
    await f.call('POST', '/api/v1/links', { key, body })
  }
  const product = { url: 'https://shop.example/', title: 'Link of a product', linkType: 'standard' }
  await f.call('POST', '/api/v1/links', { key, body: product })
  const list = (query: string) => f.call('GET', `/api/v1/links${query}`, { key })
  const titles = (response: Awaited<ReturnType<typeof list>>) =>
    response.body.data.links.map(({ title }: { title: string }) => title)

  const plain = await list('')
  t.same(Object.keys(plain.body.data), ['links'])
  t.equal(plain.body.data.links.length, 100, 'a hundred, the product among them')
  const [, next] = /^<(.*)>; rel="next"$/.exec(String(plain.headers['link'])) ?? []
  t.match(next, /^https:\/\/pay\.example\/api\/v1\/links\?cursor=/)
  const rest = await list(new URL(next!).search)
  t.same(titles(rest), ['Link 1', 'Link 0'])
  t.equal(rest.headers['link'], undefined)
  t.equal(rest.body.data.nextCursor, null)

  const first = await list('?limit=2&state=public')
  t.same(titles(first), ['Link 100', 'Link 90'])
  const cursor = encodeURIComponent(first.body.data.nextCursor)
  t.same(titles(await list(`?limit=2&state=public&cursor=${cursor}`)), ['Link 80', 'Link 70'])
  t.same(titles(await list('?q=LINK%20forty')), ['Link forty-two'])
  t.same(titles(await list('?q=no%20such')), [])
  t.match(String((await list('?q=link&limit=1')).headers['link']), /limit=1&q=link/, 'what is found goes on')
  for (const bad of ['limit=0', 'limit=101', 'cursor=nonsense', 'state=nice', 'cursor='])
    t.equal((await list(`?${bad}`)).status, 400, bad)
})

t.test('deleting is soft, frees the slug, and repeats', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const url = await f.seller()
  const body = { url, title: 'Gone', slug: 'gone' }
  const { id } = (await f.call('POST', '/api/v1/links', { key, body })).body.data
  for (let i = 0; i < 2; i++) {
    const headers = { 'content-type': 'application/json' }
    const deleted = await f.call('DELETE', `/api/v1/links/${id}`, { key, headers })
    t.equal(deleted.status, 200)
    t.same(deleted.body, { success: true })
  }
  t.same(f.changes.at(-1), { kind: 'link', username, slug: 'gone' })
  t.equal((await f.call('GET', `/api/v1/links/${id}`, { key })).body.data.isActive, false)
  t.same((await f.call('GET', '/api/v1/links', { key })).body.data.links, [])
  const changed = await f.call('PATCH', `/api/v1/links/${id}`, { key, body: { title: 'x' } })
  t.equal(changed.body.error.code, 'CONFLICT')
  t.equal((await f.call('POST', '/api/v1/links', { key, body })).status, 201)
})

t.test("another store's link is as unknown as one that never was, and so is no id at all", async (t) => {
  const f = await startAdmin(t)
  const [mine, other] = [await f.store(), await f.store()]
  const url = await f.seller()
  const { id } = (await f.call('POST', '/api/v1/links', { key: other.key, body: { url, title: 'Theirs' } }))
    .body.data
  const routes = [
    ['GET', ''],
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', '/re-enable'],
    ['POST', '/test'],
    ['GET', '/health'],
  ] as const
  for (const [method, rest] of routes) {
    const responses = []
    for (const linkId of [id, unknownId, 'abc', '1', '%F0%9F%A6%86', 'x'.repeat(300)]) {
      const response = await f.call(method, `/api/v1/links/${linkId}${rest}`, {
        key: mine.key,
        ...(method === 'PATCH' && { body: { title: 'Mine' } }),
      })
      t.equal(response.status, 404, `${method} ${linkId.slice(0, 40)}${rest}`)
      t.equal(response.body.error.code, 'LINK_NOT_FOUND')
      responses.push({ ...response.body.error, requestId: '', message: '' })
    }
    t.equal(new Set(responses.map((a) => JSON.stringify(a))).size, 1)
  }
  t.equal((await f.db.links.find(id))!.title, 'Theirs')
  t.ok((await f.db.links.find(id))!.isActive)
  t.notOk(f.logged.some((entry) => isTollgateError((entry as { err?: unknown }).err)))
})
