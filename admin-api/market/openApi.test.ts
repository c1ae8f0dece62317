import { discoverOriginSchema } from '@agentcash/discovery'
import t, { type Test } from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

type Shop = Awaited<ReturnType<typeof shops>>

/** Stores on a server that listens, and a function that adds links. */
async function shops(t: Test) {
  const f = await startAdmin(t)
  const api = await f.seller()
  // What was asked before is kept for a minute.
  f.clock.nowMs += 60_000
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const put = async ({ key }: { readonly key: string }, slug: string, more: object = {}) => {
    f.clock.nowMs += 1_000
    const body = { url: api, title: `The ${slug}`, slug, price: '0.10', isPublic: true, ...more }
    const { status, text, body: response } = await f.call('POST', '/api/v1/links', { key, body })
    if (status !== 201) throw new Error(text)
    return response.data as { id: string; fullUrl: string }
  }
  return { f, put, base: `http://127.0.0.1:${port}` }
}

/** What x402scan's own library finds, by method and path, with the price of paid links. */
async function foundBy(base: string, specificationOverrideUrl?: string) {
  const found = await discoverOriginSchema({
    target: base,
    ...(specificationOverrideUrl !== undefined && { specificationOverrideUrl }),
  })
  if (!found.found) throw new Error(JSON.stringify(found))
  const links = found.endpoints.filter(({ path }) => path.startsWith('/api/link/'))
  return {
    all: found.endpoints,
    paid: links
      .filter(({ authMode }) => authMode === 'paid')
      .map(({ method, path, price, protocols }) => `${method} ${path} ${price} ${protocols}`)
      .sort(),
    unpaid: links.filter(({ authMode }) => authMode !== 'paid').map(({ path }) => path),
  }
}

async function fill({ put, f }: Shop) {
  const [ann, bob] = [await f.store(), await f.store()]
  const inputSchema = {
    type: 'object',
    properties: { city: { type: 'string', description: 'Any "city"' } },
    required: ['city'],
  }
  await put(ann, 'read', { methods: ['GET'], inputSchema, outputExample: { celsius: 21 }, tags: ['weather'] })
  await put(ann, 'write', { methods: ['POST', 'PUT'], inputSchema, price: '12.345678' })
  await put(bob, 'read', { price: '0.000001', description: 'Zürich ✓ "quoted"' })
  const below = { ...inputSchema, 'x-path': '/{petId}', 'x-parameters': [{ name: 'petId', in: 'path' }] }
  await put(bob, 'pet', { methods: ['DELETE'], inputSchema: below })
  await put(bob, 'free', { price: '0' })
  await put(bob, 'unlisted', { isPublic: false })
  await put(bob, 'secret', { isStealth: true })
  const gone = await put(bob, 'gone')
  await f.call('DELETE', `/api/v1/links/${gone.id}`, { key: bob.key })
  const of = (name: string, lines: string[]) =>
    lines.map((line) => line.replace('/', `/api/link/${name}/`).replace(/$/, ' USD x402'))
  return {
    ann,
    bob,
    annsLinks: of(ann.username, ['GET /read 0.10', 'POST /write 12.345678', 'PUT /write 12.345678']),
    bobsLinks: of(bob.username, ['DELETE /pet/{petId} 0.10', 'GET /read 0.000001']),
  }
}

t.test(
  "x402scan's library finds every public paid link with its price, at the origin and at a store",
  async (t) => {
    const shop = await shops(t)
    const { ann, bob, annsLinks, bobsLinks } = await fill(shop)
    const atOrigin = await foundBy(shop.base)
    t.same(atOrigin.paid, [...annsLinks, ...bobsLinks].sort())
    t.same(atOrigin.unpaid, [])
    t.notMatch((await shop.f.call('GET', '/openapi.json')).text, /api\/link\/\w+\/(unlisted|secret|gone)/)
    t.ok(
      atOrigin.all.some(({ path }) => path === '/api/v1/links'),
      'beside the routes of the API itself',
    )
    const unmarked = atOrigin.all.filter(
      ({ authMode, path }) => authMode === undefined && !path.startsWith('/api/'),
    )
    t.same(unmarked, [], 'what needs no key says so')
    t.same((await foundBy(shop.base, `${shop.base}/${ann.username}/openapi.json`)).paid, annsLinks.sort())
    const atStore = await foundBy(shop.base, `${shop.base}/${bob.username}/openapi.json`)
    t.same(atStore.paid, bobsLinks.sort())
    t.same(atStore.unpaid, [`/api/link/${bob.username}/free`])
  },
)

t.test('a link that comes, changes or goes is another document at once', async (t) => {
  const shop = await shops(t)
  const ann = await shop.f.store()
  t.same((await foundBy(shop.base)).paid, [])
  shop.f.clock.nowMs += 60_000
  const { id } = await shop.put(ann, 'late')
  const line = (price: string) => `GET /api/link/${ann.username}/late ${price} USD x402`
  t.same((await foundBy(shop.base)).paid, [line('0.10')])
  await shop.f.call('PATCH', `/api/v1/links/${id}`, { key: ann.key, body: { price: '0.20' } })
  t.same((await foundBy(shop.base)).paid, [line('0.20')])
  await shop.f.call('DELETE', `/api/v1/links/${id}`, { key: ann.key })
  t.same((await foundBy(shop.base)).paid, [])
})

t.test('links that say much are all found, and the document stays one that can be read', async (t) => {
  const shop = await shops(t)
  const ann = await shop.f.store()
  const long = {
    methods: ['POST'],
    inputSchema: { type: 'object', description: 'x'.repeat(15_000) },
    outputExample: { text: 'y'.repeat(15_000) },
  }
  for (let i = 0; i < 45; i++) await shop.put(ann, `long-${i}`, long)
  t.equal((await foundBy(shop.base)).paid.length, 45)
  const { text, headers } = await shop.f.call('GET', '/openapi.json')
  t.ok(text.length < 1_500_000, `${text.length} characters`)
  t.match(headers, { 'access-control-allow-origin': '*', 'cache-control': /public/ })
  const etag = String(headers['etag'])
  t.equal((await shop.f.call('GET', '/openapi.json', { headers: { 'if-none-match': etag } })).status, 304)
})

t.test('what each operation answers is described, and every reference leads somewhere', async (t) => {
  const shop = await shops(t)
  const { ann } = await fill(shop)
  for (const path of ['/openapi.json', `/${ann.username}/openapi.json`]) {
    const { body, text } = await shop.f.call('GET', path)
    const operations: { operationId: string; responses: object; security: object[] }[] = Object.values(
      body.paths as Record<string, object>,
    ).flatMap((item) => Object.values(item))
    t.equal(new Set(operations.map(({ operationId }) => operationId)).size, operations.length)
    for (const { responses, security } of operations) {
      t.ok(Object.keys(responses).some((status) => status.startsWith('2')))
      t.ok(Array.isArray(security))
    }
    for (const [, pointer] of new Set(text.matchAll(/"\$ref":"#([^"]+)"/g))) {
      const parts = pointer!
        .slice(1)
        .split('/')
        .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
      t.ok(
        parts.reduce((at, part) => at?.[decodeURI(part)], body),
        pointer!,
      )
    }
  }
})
