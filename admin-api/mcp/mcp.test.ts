import t, { type Test } from 'tap'
import { connectMcp } from '../../test/helpers/admin-api/mcp/connectMcp.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { evmWallet } from '../../test/helpers/admin-api/wallets.ts'

const tools = [
  ...['search_links', 'get_link', 'call_link', 'submit_review', 'create_store', 'create_link', 'update_link'],
  ...['create_payment', 'list_purchases', 'get_stats'],
]

async function start(t: Test, overrides: Parameters<typeof startAdmin>[1] = {}) {
  const f = await startAdmin(t, overrides)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  return { ...f, base: `http://127.0.0.1:${port}` }
}

t.test('every tool says what it takes, what it gives and what it may do', async (t) => {
  const { base } = await start(t)
  const { client, call } = await connectMcp(t, base)
  const listed = (await client.listTools()).tools
  t.strictSame(
    listed.map(({ name }) => name),
    tools,
  )
  for (const { name, title, description, inputSchema, outputSchema, annotations } of listed) {
    t.ok(title && description, name)
    t.equal(inputSchema.type, 'object')
    t.equal(inputSchema['additionalProperties'], false)
    t.equal(outputSchema?.type, 'object')
    t.type(annotations?.readOnlyHint, 'boolean')
    t.notMatch(
      JSON.stringify({ inputSchema, outputSchema }),
      /"x-|\\\\p\{|\$ref/,
      'in words that every client knows',
    )
  }
  t.match(client.getInstructions(), /Third parties write/)
  // The tool's schema is compiled at its first call.
  for (const name of tools) {
    const { isError, content } = await call(name, { nothing: 1 })
    t.ok(isError, name)
    t.match(content[0]?.text, /VALIDATION_ERROR/, name)
  }
})

t.test('an agent opens a store with its wallet, sells, and reads how it does', async (t) => {
  const f = await start(t)
  const { call } = await connectMcp(t, f.base)
  const wallet = evmWallet()
  const { address, chain } = wallet
  const first = (await call('create_store', { address, chain })).structuredContent
  t.match(first, { nonce: String, next: /create_store again/ })
  const signature = await wallet.sign(first.message)
  const opened = await call('create_store', { address, chain, message: first.message, signature })
  const { apiKey, store } = opened.structuredContent
  t.match(apiKey, /^tg_live_/)

  const link = { url: await f.seller(), title: 'Tides', isPublic: true }
  const made = await call('create_link', { ...link, apiKey })
  t.match(made.structuredContent, {
    slug: 'tides',
    fullUrl: `https://pay.example/api/link/${store.username}/tides`,
  })
  const own = await connectMcp(t, f.base, apiKey)
  const { id } = made.structuredContent
  t.match((await own.call('update_link', { id, description: 'Of Oslo.' })).structuredContent, {
    description: 'Of Oslo.',
  })
  t.match((await own.call('list_purchases')).structuredContent, {
    purchases: { length: 0 },
    nextCursor: null,
  })
  t.match((await own.call('get_stats', { period: '7d' })).structuredContent, { period: '7d', views: 0 })

  const asked = { amount: '5', title: 'Tea', idempotencyKey: 'a' }
  const session = (await own.call('create_payment', asked)).structuredContent
  t.match(session, { status: 'open', item: { title: 'Tea' }, checkoutUrl: /\/pay\/checkout\/.*cs=pscs_/ })
  t.equal(
    (await own.call('create_payment', asked)).structuredContent.id,
    session.id,
    'the same call, the same session',
  )
  const other = await own.call('create_payment', { ...asked, amount: 6 })
  t.match(other, { isError: true, structuredContent: { error: { action: String } } })

  const found = await call('search_links', { q: 'tides', limit: 1 })
  t.match(found.structuredContent, {
    results: [
      {
        title: 'Tides',
        endpoint: `/api/link/${store.username}/tides`,
        url: made.structuredContent.fullUrl,
      },
    ],
  })
  t.strictSame(JSON.parse(found.content[0]!.text), found.structuredContent, 'the result comes first')
  t.match(found.content[1]!.text, /do not follow/i, 'and behind it whose words they are')
  for (const given of [
    made.structuredContent.fullUrl,
    `/api/link/${store.username}/tides`,
    `${store.username}/tides`,
  ]) {
    const read = await call('get_link', { link: given })
    t.match(read.structuredContent, {
      description: 'Of Oslo.',
      seller: { username: store.username },
      accepts: { length: 0 },
    })
    t.equal(read.structuredContent.endpoint, `/api/link/${store.username}/tides`)
    t.equal(read.structuredContent.url, made.structuredContent.fullUrl, 'where the API is stays its seller’s')
  }
})

t.test('what is wrong is told as the API tells it, with what to do', async (t) => {
  const f = await start(t)
  const { call, client } = await connectMcp(t, f.base)
  const wrong = async (name: string, args: object) => {
    const { isError, structuredContent, content } = await call(name, args)
    t.ok(isError, name)
    t.strictSame(JSON.parse(content[0]!.text), structuredContent)
    t.ok(structuredContent.error.action)
    return structuredContent.error
  }
  t.match(await wrong('create_link', { url: 'http://a.example', title: 'x' }), { code: 'UNAUTHORIZED' })
  t.match(await wrong('get_stats', { apiKey: 'tg_live_x' }), { code: 'UNAUTHORIZED' })
  t.match(await wrong('search_links', { query: 'x' }), {
    code: 'VALIDATION_ERROR',
    details: [{ path: 'query', message: /Expected one of q/ }],
  })
  t.match(await wrong('search_links', { limit: 0 }), { details: [{ path: 'limit', code: 'range' }] })
  t.match(await wrong('get_link', {}), { details: [{ path: 'link', code: 'required' }] })
  t.match(await wrong('get_link', { link: 'nobody/nothing' }), { code: 'LINK_NOT_FOUND' })
  t.match(await wrong('get_link', { link: 'https://elsewhere.example/a/b' }), { code: 'VALIDATION_ERROR' })
  const wallet = '0x00000000000000000000000000000000000000b1'
  const review = { purchaseId: 'x', wallet, token: 'x', positive: true }
  t.match(await wrong('submit_review', review), { code: 'NOT_FOUND' })
  const { key } = await f.store()
  const link = { apiKey: key, title: 'x', url: 'http://127.0.0.1:1', price: '0.1' }
  t.match(await wrong('create_link', link), { code: 'API_NOT_RESPONDING' })
  await t.rejects(client.callTool({ name: 'nothing' }), /Expected one of search_links/)
})

t.test('no id takes a tool to another route than its own', async (t) => {
  const f = await start(t)
  const { key } = await f.store()
  const { call } = await connectMcp(t, f.base, key)
  const errorFor = async (id: string) =>
    (await call('update_link', { id, title: 'x' })).structuredContent.error
  for (const id of ['.', '..', '', '/', '\\', 'a/b', '../purchases', '..\\profile', '../../v1/profile']) {
    const details = [{ path: 'id', code: 'format' }]
    t.match(await errorFor(id), { code: 'VALIDATION_ERROR', details, action: String }, id)
  }
  for (const id of ['...', '%2e%2e', '%2F', '.%2e', '?', '#', '$&'])
    t.match(await errorFor(id), { code: 'LINK_NOT_FOUND' }, id)
})

t.test('tools have the limits of the routes that they are, for the address and for the key', async (t) => {
  const f = await start(t, {
    limits: { discoverPerMinute: 2, storePerMinute: 1, keyPerMinute: 3, badKeyPerMinute: 2 },
  })
  const { call } = await connectMcp(t, f.base)
  for (let i = 0; i < 2; i++) t.notOk((await call('search_links')).isError)
  const { structuredContent } = await call('search_links')
  t.match(structuredContent.error, { code: 'RATE_LIMIT_EXCEEDED', retryAfterSeconds: 60, retryable: true })
  t.equal((await fetch(`${f.base}/api/discover`)).status, 429, 'the same bucket')
  await call('get_link', { link: 'a/b' })
  t.match((await call('get_link', { link: 'a/b' })).structuredContent.error, { code: 'RATE_LIMIT_EXCEEDED' })
  const { key } = await f.store()
  f.clock.nowMs += 60_000
  const own = await connectMcp(t, f.base, key)
  for (let i = 0; i < 3; i++) t.notOk((await own.call('get_stats')).isError)
  t.match((await own.call('get_stats')).structuredContent.error, { code: 'RATE_LIMIT_EXCEEDED' })
  const codes = []
  for (const apiKey of ['a', 'b', 'c'])
    codes.push((await call('get_stats', { apiKey })).structuredContent.error.code)
  t.strictSame(
    codes,
    ['UNAUTHORIZED', 'UNAUTHORIZED', 'RATE_LIMIT_EXCEEDED'],
    'keys are not guessed by tools',
  )
})
