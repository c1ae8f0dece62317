import t from 'tap'
import { isTollgateError } from '../../core/errors/error.ts'
import { publicUrl, startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
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
