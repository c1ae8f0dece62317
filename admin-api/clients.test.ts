import t from 'tap'
import { publicUrl, startAdmin } from '../test/helpers/admin-api/startAdmin.ts'
import { evmWallet, solanaWallet } from '../test/helpers/admin-api/wallets.ts'

/**
 * What the clients of such services do today, read from public ones, line by line: unmodified, they work here. The lines
 * about paid calls are tested where calls are served.
 */

/** A store with its key, a seller's API, and short ways to make, read and change links. */
async function client(t: Parameters<typeof startAdmin>[0]) {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const url = await f.seller()
  return {
    f,
    key,
    username,
    url,
    create: (body: object) =>
      f.call('POST', '/api/v1/links', { key, body: { url, title: 'Weather', ...body } }),
    read: (id: string) => f.call('GET', `/api/v1/links/${id}`, { key }),
    change: (id: string, body: object) => f.call('PATCH', `/api/v1/links/${id}`, { key, body }),
  }
}

t.test('they create links with currency USDC', async (t) => {
  const { create, read } = await client(t)
  const { status, body } = await create({ price: '0.10', currency: 'USDC' })
  t.equal(status, 201)
  t.equal(body.data.currency, 'USDC')
  t.match((await read(body.data.id)).body.data, { price: '0.10', currency: 'USDC' })
})

t.test('another currency is a VALIDATION_ERROR that names the accepted ones', async (t) => {
  const { create, change } = await client(t)
  const { id } = (await create({})).body.data
  for (const currency of ['EUR', 'usdc', 'USDT', 'SOL', '', 1, {}]) {
    for (const response of [await create({ currency }), await change(id, { currency })]) {
      t.equal(response.status, 400, JSON.stringify(currency))
      t.equal(response.body.error.code, 'VALIDATION_ERROR')
      t.match(response.body.error.details, [{ path: 'currency', code: 'not_allowed', message: /"USDC"/ }])
      t.match(response.body.error.message, /"USDC"/)
    }
  }
})

t.test(
  'they create stealth links with isStealth and isPublic: stealth wins, without a conflict',
  async (t) => {
    const { f, username, create, read, change } = await client(t)
    const { status, body } = await create({ isStealth: true, isPublic: true })
    t.equal(status, 201)
    const { id, privateSlug, privateUrl } = body.data
    t.match(privateSlug, /^[0-9a-f]{32}$/)
    t.equal(privateUrl, `${publicUrl}/api/link/${username}/${privateSlug}`)
    const isHidden = async () => {
      t.match((await read(id)).body.data, { isStealth: true, isPublic: false })
      t.same((await f.call('GET', `/api/store/${username}`)).body.links, [])
    }
    await isHidden()
    t.equal((await change(id, { isPublic: true })).status, 200)
    await isHidden()
    t.equal((await read(id)).body.data.privateSlug, privateSlug, 'its address stays')

    const opened = await change(id, { isStealth: false, isPublic: true })
    t.match(opened.body.data, { isStealth: false, isPublic: true, privateSlug: null })
    t.match((await change(id, { isStealth: true })).body.data, { isStealth: true, isPublic: false })
  },
)

t.test('a field that they send and we have no use for does not stop a sale', async (t) => {
  const { f, key, create, read, change } = await client(t)
  const made = (await create({ price: '0.10' })).body.data
  const record = (await read(made.id)).body.data
  const later = {
    id: 'theirs',
    createdAt: 'yesterday',
    updatedAt: 7,
    fullUrl: 'https://else.example/',
    isPaid: false,
  }

  t.equal((await create({ ...made, ...later, slug: 'echoed-one' })).status, 201, 'what creating answered')
  const copy = await create({ ...record, ...later, slug: 'echoed-two' })
  t.equal(copy.status, 201, 'a whole record')
  const stored = (await read(copy.body.data.id)).body.data
  t.not(stored.id, 'theirs')
  t.match(stored, {
    price: '0.10',
    isPaid: true,
    isActive: true,
    linkType: 'api',
    createdAt: record.createdAt,
  })

  const changed = await change(made.id, { ...record, ...made, ...later, title: 'Renamed' })
  t.equal(changed.status, 200)
  const { updatedAt, title, ...rest } = changed.body.data
  t.match({ ...record, ...rest }, rest, 'only the title changed')
  t.equal(title, 'Renamed')
  t.ok(updatedAt)

  const { keys } = (await f.call('GET', '/api/agent/keys', { key })).body.data
  const named = await f.call('POST', '/api/agent/keys', { key, body: { ...keys[0], name: 'Second' } })
  t.equal(named.status, 201, 'a record of a key')
  t.equal(named.body.data.name, 'Second')
  t.not(named.body.data.id, keys[0].id)

  const profile = (await f.call('GET', '/api/v1/profile', { key })).body
  const saved = await f.call('PATCH', '/api/v1/profile', {
    key,
    body: { ...profile, userId: 'x', bio: 'Sells' },
  })
  t.equal(saved.status, 200, 'a whole profile')
  t.match(saved.body.data, { userId: profile.userId, bio: 'Sells' })
})

t.test('they send a creation again without an idempotency key: it makes one link', async (t) => {
  const { f, key, create, read, change } = await client(t)
  const listed = async () => (await f.call('GET', '/api/v1/links', { key })).body.data.links.length
  let probes = 0
  const slow = await f.seller((_request, response) => {
    probes++
    setImmediate(() => response.end('{}'))
  })
  const wish = { url: slow, price: '0.10', slug: 'weather', upstreamHeaders: { 'x-key': 'k' } }
  const atOnce = await Promise.all([create(wish), create(wish)])
  const later = await create(wish)
  for (const { status, body } of [...atOnce, later]) {
    t.equal(status, 201)
    t.same(body, atOnce[0]!.body)
  }
  t.equal(await listed(), 1)
  t.equal(probes, 1)

  const other = await create({ ...wish, price: '0.20' })
  t.equal(other.body.error.code, 'SLUG_ALREADY_EXISTS', 'another wish is another link')
  const { id } = later.body.data
  await change(id, { price: '0.30' })
  t.match((await create(wish)).body.data, { id, price: '0.30' }, 'as it has become meanwhile')
  await f.call('DELETE', `/api/v1/links/${id}`, { key })
  t.not((await create(wish)).body.data.id, id, 'a deleted one is made anew')
  f.clock.nowMs += 60_000
  t.equal((await create(wish)).body.error.code, 'SLUG_ALREADY_EXISTS', 'a minute later it is no repeat')
  t.match((await read(id)).body.data, { isActive: false })

  let answer = 500
  const mended = await f.seller((_request, response) => response.writeHead(answer).end('{}'))
  const broken = { url: mended, price: '1' }
  t.equal((await create(broken)).status, 422)
  answer = 200
  t.equal((await create(broken)).status, 201, 'a refusal is not remembered')
})

t.test('an empty webhookUrl or iconUrl is none, as a form sends it', async (t) => {
  const { create, read, change } = await client(t)
  const { status, body } = await create({ webhookUrl: '', iconUrl: '' })
  t.equal(status, 201)
  t.match((await read(body.data.id)).body.data, { webhookUrl: null, iconUrl: null })
  await change(body.data.id, { webhookUrl: 'https://hooks.example/x' })
  t.equal((await change(body.data.id, { webhookUrl: '' })).body.data.webhookUrl, null)
})

t.test('the rest is refused with the near miss, and nobody is led to a field without use', async (t) => {
  const { create } = await client(t)
  const detailOf = async (body: object) => (await create(body)).body.error.details[0]
  t.match(await detailOf({ prise: '1' }), { code: 'unknown_field', message: /Did you mean "price"/ })
  t.match(await detailOf({ curency: 'USDC' }), { code: 'unknown_field', message: /Did you mean "currency"/ })
  t.notMatch(await detailOf({ isPayd: true }), { message: /isPaid/ })
  t.notMatch(await detailOf({ xyzzy: 1 }), { message: /createdAt|fullUrl/ })
  const off = await detailOf({ isActive: false })
  t.match(off, { path: 'isActive', message: /DELETE/ }, 'one that would mean something is not passed over')
})

t.test(
  'a standard link has no API behind it: the gateway sends it no request, and its seller sees it in the list',
  async (t) => {
    const { f, key, username, create, read, change } = await client(t)
    let requestCount = 0
    const broken = await f.seller((_request, response) => {
      requestCount++
      response.writeHead(500).end()
    })
    const product = { url: broken, title: 'A book', price: '5', linkType: 'standard', isPublic: true }
    const { status, body } = await create(product)
    t.equal(status, 201)
    t.equal(body.data.linkType, 'standard')
    t.equal(requestCount, 0)
    const { id } = body.data
    t.match((await read(id)).body.data, { linkType: 'standard', isPaid: true, url: broken })
    t.match((await f.call('GET', '/api/v1/links', { key })).body.data.links, [{ id, linkType: 'standard' }])
    t.match((await f.call('GET', `/api/store/${username}`)).body.links, [{ id, linkType: 'standard' }])
    t.match(await f.db.links.served(username, body.data.slug), { linkType: 'standard' })

    t.equal((await change(id, { price: '6' })).status, 200)
    t.equal(requestCount, 0)
    t.equal(
      (await change(id, { linkType: 'api' })).body.error.code,
      'API_NOT_RESPONDING',
      'an API has to answer',
    )
    t.equal(requestCount, 1)
    t.equal((await read(id)).body.data.linkType, 'standard')
    t.match((await create({ linkType: 'standart' })).body.error.details, [
      { message: /Did you mean "standard"/ },
    ])
  },
)

t.test('withdrawals answer a plain 409 to the key of a store, and 401 to nobody', async (t) => {
  const { f, key } = await client(t)
  const wish = { amount: '1', walletAddress: evmWallet().address, chain: 'base' }
  const options = [{}, { body: wish }, { body: {} }, { headers: { 'content-type': 'application/json' } }]
  for (const method of ['GET', 'POST']) {
    for (const option of options) {
      const { status, body } = await f.call(method, '/api/v1/withdrawals', { key, ...option })
      t.equal(status, 409)
      t.match(body, {
        success: false,
        error: { code: 'WITHDRAWALS_NOT_AVAILABLE', message: /directly.*payout/, retryable: false },
      })
    }
    t.equal((await f.call(method, '/api/v1/withdrawals')).status, 401)
  }
})

t.test('what belongs to another store is 404, and Developer Mode breaks no key that works', async (t) => {
  const { f, key, create } = await client(t)
  const { id: linkId } = (await create({})).body.data
  const { id: keyId } = (await f.call('GET', '/api/agent/keys', { key })).body.data.keys[0]
  const other = await f.store()
  for (const [method, path, code] of [
    ['GET', `/api/v1/links/${linkId}`, 'LINK_NOT_FOUND'],
    ['PATCH', `/api/v1/links/${linkId}`, 'LINK_NOT_FOUND'],
    ['DELETE', `/api/v1/links/${linkId}`, 'LINK_NOT_FOUND'],
    ['GET', `/api/v1/stats?linkId=${linkId}`, 'LINK_NOT_FOUND'],
    ['GET', `/api/v1/purchases?linkId=${linkId}`, 'LINK_NOT_FOUND'],
    ['DELETE', `/api/agent/keys/${keyId}`, 'NOT_FOUND'],
  ] as const) {
    const response = await f.call(method, path, { key: other.key, ...(method === 'PATCH' && { body: {} }) })
    t.match(response, { status: 404, body: { error: { code } } }, `${method} ${path}`)
  }

  for (const developerModeEnabled of [true, false]) {
    const saved = await f.call('PATCH', '/api/v1/profile', { key, body: { developerModeEnabled } })
    t.equal(saved.body.data.developerModeEnabled, developerModeEnabled)
    t.equal((await f.call('GET', '/api/v1/profile', { key })).body.developerModeEnabled, developerModeEnabled)
    const made = await f.call('POST', '/api/agent/keys', { key, body: { name: 'Next' } })
    t.equal(made.status, 201, 'a key can be replaced')
    t.equal((await f.call('GET', '/api/v1/links', { key: made.body.data.apiKey })).status, 200)
  }
})

t.test('they send a sign-up again after 500 ms and after 15 s: the same store, the same key', async (t) => {
  const f = await startAdmin(t)
  for (const wallet of [evmWallet(), solanaWallet()]) {
    const { address, chain } = wallet
    const nonce = await f.call('POST', '/api/agent/auth/nonce', { body: { address, chain } })
    const { message } = nonce.body.data
    const body = { ...nonce.body.data, address, chain, signature: await wallet.sign(message) }
    const responses = []
    for (const afterMs of [0, 500, 15_000, 500]) {
      f.clock.nowMs += afterMs
      responses.push(await f.call('POST', '/api/agent/signup', { body }))
    }
    for (const response of responses) {
      t.equal(response.status, 201)
      t.same(response.body, responses[0]!.body)
    }
    const key = responses[0]!.body.data.apiKey
    t.equal((await f.call('GET', '/api/agent/keys', { key })).body.data.keys.length, 1)
  }
})

t.test('a Content-Type of JSON without a body is no body', async (t) => {
  const { f, key, create } = await client(t)
  const { id } = (await create({})).body.data
  const made = await f.call('POST', '/api/agent/keys', { key, body: {} })
  for (const [method, path, status] of [
    ['GET', '/api/v1/profile', 200],
    ['GET', '/api/v1/links', 200],
    ['GET', '/api/v1/stats', 200],
    ['POST', '/api/agent/keys', 201],
    ['POST', `/api/v1/links/${id}/test`, 200],
    ['DELETE', `/api/agent/keys/${made.body.data.id}`, 200],
    ['DELETE', `/api/v1/links/${id}`, 200],
  ] as const) {
    const response = await f.call(method, path, { key, headers: { 'content-type': 'application/json' } })
    t.equal(response.status, status, `${method} ${path}`)
  }
})

t.test('every error is JSON, and its code and message stand in its first 500 characters', async (t) => {
  const { f, key, create } = await client(t)
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`unheardOf${i}`, i]))
  const errors = [
    await create({ ...many, price: 'x', slug: 'X' }),
    await create({ title: 'x'.repeat(400), description: '\u202e', tags: ['!'] }),
    await create({ price: '0.0000001', url: 'http://10.0.0.1/' }),
    await f.call('POST', '/api/v1/links', { key, body: '{"url":' }),
    await f.call('GET', '/api/v1/nothing', { key }),
    await f.call('GET', '/api/v1/links'),
  ]
  for (const { status, text, body } of errors) {
    t.ok(status >= 400 && status < 500)
    const { code, message } = body.error
    t.ok(text.indexOf(JSON.stringify(code)) < 100)
    t.ok(text.indexOf(JSON.stringify(message)) + JSON.stringify(message).length <= 500, message)
  }
})

t.test('signatures come in base64, base58 and hex, addresses checksummed or not', async (t) => {
  const f = await startAdmin(t)
  const evm = evmWallet()
  const spellings = [evm.address, evm.address.toLowerCase(), `0x${evm.address.slice(2).toUpperCase()}`]
  const upperHex = async (text: string) => `0x${(await evm.sign(text)).slice(2).toUpperCase()}`
  const names = new Set<string>()
  for (const address of spellings) {
    const { status, body } = await f.signUp({
      ...evm,
      address,
      ...(address !== evm.address && { sign: upperHex }),
    })
    t.ok(status === 200 || status === 201)
    names.add(body.data.store.username)
  }
  t.equal(names.size, 1, 'one wallet, one store')
  for (const encoding of ['base64', 'base58'] as const) {
    t.equal((await f.signUp(solanaWallet(encoding))).status, 201, encoding)
  }
})

t.test('slugs, prices and names have their forms, and a price of too many decimals is told so', async (t) => {
  const { f, key, create, read } = await client(t)
  for (const slug of ['abc', 'a-1', '---', 'x'.repeat(64)])
    t.equal((await create({ slug })).status, 201, slug)
  for (const slug of ['ab', 'x'.repeat(65), 'Abc', 'a_b', 'a b', 'ä-b', '']) {
    t.match((await create({ slug })).body.error?.details, [{ path: 'slug', code: 'format' }], slug)
  }
  t.match((await create({ slug: null })).body.data?.slug, /^weather/, 'null is as if it was left out')
  for (const price of ['0', '1', '0.10', '0.000001', `0.1${'0'.repeat(17)}`]) {
    const { status, body } = await create({ price })
    t.equal(status, 201, price)
    t.type((await read(body.data.id)).body.data.price, 'string')
  }
  for (const price of ['0.1234567', `0.${'1'.repeat(18)}`]) {
    const { error } = (await create({ price })).body
    t.equal(error.code, 'VALIDATION_ERROR')
    t.match(error.message, /at most 6 decimals/)
  }
  for (const price of ['.5', '1.', '-1', '1e3', '1,5', `0.${'1'.repeat(19)}`, 0.1, null]) {
    t.match((await create({ price })).body.error?.details, [{ path: 'price' }], String(price))
  }
  const change = async (body: object) => (await f.call('PATCH', '/api/v1/profile', { key, body })).status
  for (const username of ['ab', 'x'.repeat(33), 'With-Dash', 'Upper'])
    t.equal(await change({ username }), 400)
  t.equal(await change({ username: 'abc_1', displayName: 'x'.repeat(50), bio: 'x'.repeat(160) }), 200)
  for (const body of [{ displayName: 'x'.repeat(51) }, { bio: 'x'.repeat(161) }])
    t.equal(await change(body), 400)
  const keyNamed = async (body?: object) =>
    (await f.call('POST', '/api/agent/keys', { key, ...(body && { body }) })).status
  t.same(
    [await keyNamed(), await keyNamed({ name: 'x'.repeat(64) }), await keyNamed({ name: 'x'.repeat(65) })],
    [201, 201, 400],
  )
})

t.test(
  'GET and PATCH of a link answer the link itself, null clears, DELETE of a key says what became of it',
  async (t) => {
    const { f, key, username, url, create, read, change } = await client(t)
    const set = { description: 'x', isPublic: true, webhookUrl: 'https://hooks.example/x' }
    const { data } = (await create({ ...set, price: '0.10' })).body
    t.equal(data.fullUrl, `${publicUrl}/api/link/${username}/${data.slug}`)
    const { data: link } = (await read(data.id)).body
    t.match(link, { ...set, id: data.id, url, privateSlug: null, updatedAt: data.createdAt, price: '0.10' })
    f.clock.nowMs += 1_000
    const cleared = (
      await change(data.id, { description: null, isPublic: null, isStealth: null, webhookUrl: null })
    ).body
    t.match(cleared.data, { id: data.id, description: '', isPublic: false, webhookUrl: null, price: '0.10' })
    t.equal(cleared.data.updatedAt, new Date(f.clock.nowMs).toISOString())

    const { id } = (await f.call('POST', '/api/agent/keys', { key })).body.data
    const revoked = await f.call('DELETE', `/api/agent/keys/${id}`, { key })
    const revokedAt = new Date(f.clock.nowMs).toISOString()
    t.same(revoked.body, { success: true, data: { id, revoked: true, isActive: false, revokedAt } })
  },
)
