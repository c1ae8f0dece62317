import t from 'tap'
import { publicUrl, startAdmin } from './testing/startAdmin.ts'
import { evmWallet } from './testing/wallets.ts'

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
    for (const answer of [await create({ currency }), await change(id, { currency })]) {
      t.equal(answer.status, 400, JSON.stringify(currency))
      t.equal(answer.body.error.code, 'VALIDATION_ERROR')
      t.match(answer.body.error.details, [{ path: 'currency', code: 'not_allowed', message: /"USDC"/ }])
      t.match(answer.body.error.message, /"USDC"/)
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

t.test('the rest is refused with the near miss, and nobody is led to a field without use', async (t) => {
  const { create } = await client(t)
  const detailOf = async (body: object) => (await create(body)).body.error.details[0]
  t.match(await detailOf({ prise: '1' }), { code: 'unknown_field', message: /did you mean "price"/ })
  t.match(await detailOf({ curency: 'USDC' }), { code: 'unknown_field', message: /did you mean "currency"/ })
  t.notMatch(await detailOf({ isPayd: true }), { message: /isPaid/ })
  t.notMatch(await detailOf({ xyzzy: 1 }), { message: /createdAt|fullUrl/ })
  const off = await detailOf({ isActive: false })
  t.match(off, { path: 'isActive', message: /DELETE/ }, 'one that would mean something is not passed over')
})

t.test(
  'a standard link has no API behind it: nobody asks it, and the list of APIs leaves it out',
  async (t) => {
    const { f, key, username, create, read, change } = await client(t)
    let asked = 0
    const broken = await f.seller((_request, response) => {
      asked++
      response.writeHead(500).end()
    })
    const product = { url: broken, title: 'A book', price: '5', linkType: 'standard', isPublic: true }
    const { status, body } = await create(product)
    t.equal(status, 201)
    t.equal(body.data.linkType, 'standard')
    t.equal(asked, 0)
    const { id } = body.data
    t.match((await read(id)).body.data, { linkType: 'standard', isPaid: true, url: broken })
    t.same((await f.call('GET', '/api/v1/links', { key })).body.data.links, [])
    t.match((await f.call('GET', `/api/store/${username}`)).body.links, [{ id, linkType: 'standard' }])
    t.match(await f.db.links.served(username, body.data.slug), { linkType: 'standard' })

    t.equal((await change(id, { price: '6' })).status, 200)
    t.equal(asked, 0)
    t.equal(
      (await change(id, { linkType: 'api' })).body.error.code,
      'API_NOT_RESPONDING',
      'an API has to answer',
    )
    t.equal(asked, 1)
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
    const answer = await f.call(method, path, { key: other.key, ...(method === 'PATCH' && { body: {} }) })
    t.match(answer, { status: 404, body: { error: { code } } }, `${method} ${path}`)
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
