import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { evmWallet, solanaWallet } from '../../test/helpers/admin-api/wallets.ts'

const DAY_MS = 24 * 60 * 60_000

t.test('the profile has exactly the documented fields and payout, without an envelope', async (t) => {
  const f = await startAdmin(t)
  const { key, wallet, username } = await f.store()
  const { status, body } = await f.call('GET', '/api/v1/profile', { key })
  t.equal(status, 200)
  const now = new Date(f.clock.nowMs).toISOString()
  t.same(body, {
    userId: body.userId,
    username,
    displayName: username,
    bio: '',
    avatarUrl: '',
    developerModeEnabled: false,
    createdBy: 'agent',
    createdAt: now,
    updatedAt: now,
    socials: [],
    payout: { base: wallet.address, solana: null, changedAt: null },
  })
  t.match(body.userId, /^[0-9a-f-]{36}$/)
})

t.test('every field can be changed, null clears, and caches are told', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  f.clock.nowMs += 1_000
  const changed = await f.call('PATCH', '/api/v1/profile', {
    key,
    body: {
      displayName: 'Ünïcode 天気',
      bio: 'two\nlines',
      avatarUrl: 'https://img.example/a.png',
      developerModeEnabled: true,
    },
  })
  t.equal(changed.status, 200)
  t.same(Object.keys(changed.body), ['success', 'data'])
  t.match(changed.body.data, {
    displayName: 'Ünïcode 天気',
    bio: 'two\nlines',
    avatarUrl: 'https://img.example/a.png',
    developerModeEnabled: true,
    updatedAt: new Date(f.clock.nowMs).toISOString(),
  })
  t.same(f.changes.at(-1), { kind: 'store', username })
  const cleared = await f.call('PATCH', '/api/v1/profile', {
    key,
    body: { displayName: null, bio: null, avatarUrl: null },
  })
  t.match(cleared.body.data, { displayName: username, bio: '', avatarUrl: '' })
  t.same((await f.call('GET', '/api/v1/profile', { key })).body, cleared.body.data)
  t.equal((await f.call('PATCH', '/api/v1/profile', { key, body: {} })).status, 200)
})

t.test('the old name redirects for 30 days, and nobody else may take it meanwhile', async (t) => {
  const f = await startAdmin(t)
  const { body } = await f.signUp(evmWallet(), { username: 'old_name' })
  const key = body.data.apiKey
  const other = await f.store()
  t.equal((await f.call('PATCH', '/api/v1/profile', { key, body: { username: 'new_name' } })).status, 200)
  t.same(f.changes.slice(-2), [
    { kind: 'store', username: 'old_name' },
    { kind: 'store', username: 'new_name' },
  ])
  const moved = await f.call('GET', '/api/store/old_name')
  t.equal(moved.status, 307)
  t.equal(moved.headers['location'], '/api/store/new_name')
  t.equal((await f.call('GET', '/api/store/new_name')).body.profile.username, 'new_name')

  const taken = await f.call('PATCH', '/api/v1/profile', { key: other.key, body: { username: 'new_name' } })
  t.equal(taken.status, 409)
  t.equal(taken.body.error.code, 'USERNAME_TAKEN')
  const reserved = await f.call('PATCH', '/api/v1/profile', { key, body: { username: 'docs' } })
  t.equal(reserved.body.error.details[0].code, 'reserved')

  f.clock.nowMs += 30 * DAY_MS + 1
  t.equal((await f.call('GET', '/api/store/old_name')).status, 404)
})

t.test('a store is renamed twice in 24 hours, then told when again, and keeps one former name', async (t) => {
  const f = await startAdmin(t)
  const { body } = await f.signUp(evmWallet(), { username: 'name_0' })
  const key = body.data.apiKey
  const rename = (username: string) => f.call('PATCH', '/api/v1/profile', { key, body: { username } })
  const firstAtMs = f.clock.nowMs
  t.equal((await rename('name_1')).status, 200)
  f.clock.nowMs += 3_600_000
  t.equal((await rename('name_2')).status, 200)
  const refused = await rename('name_3')
  t.equal(refused.status, 429)
  t.equal(refused.headers['retry-after'], String(23 * 3_600))
  t.match(refused.body.error, {
    code: 'RATE_LIMIT_EXCEEDED',
    message: new RegExp(new Date(firstAtMs + DAY_MS).toISOString()),
  })
  t.equal(
    (await f.call('PATCH', '/api/v1/profile', { key, body: { username: 'name_2', bio: 'x' } })).status,
    200,
  )

  t.equal((await f.call('GET', '/api/store/name_1')).status, 307)
  t.equal((await f.call('GET', '/api/store/name_0')).status, 404)
  t.equal((await f.signUp(evmWallet(), { username: 'name_1' })).status, 409)
  t.equal((await f.signUp(evmWallet(), { username: 'name_0' })).status, 201, 'free again')
  f.clock.nowMs = firstAtMs + DAY_MS
  t.equal((await rename('name_3')).status, 200)
})

t.test(
  'what lists all links of a store anew is changed ten times an hour; the rest as often as its key may',
  async (t) => {
    const f = await startAdmin(t)
    const { key, wallet } = await f.store()
    const patch = (body: object) => f.call('PATCH', '/api/v1/profile', { key, body })
    for (let i = 0; i < 10; i++) t.equal((await patch({ displayName: `Name ${i}` })).status, 200)
    const refused = await patch({ displayName: 'Name 10', bio: 'not saved either' })
    t.equal(refused.status, 429)
    t.equal(refused.body.error.code, 'RATE_LIMIT_EXCEEDED')
    t.ok(Number(refused.headers['retry-after']) > 0)
    const profile = await patch({ displayName: 'Name 9', bio: 'said again' })
    t.match(profile.body.data, { displayName: 'Name 9', bio: 'said again' })

    const solana = solanaWallet().address
    for (let i = 0; i < 10; i++)
      t.equal((await f.movePayout(key, wallet, { solana: i % 2 === 0 ? solana : null })).status, 200)
    t.equal((await f.movePayout(key, wallet, { solana })).status, 429)
    const { address } = evmWallet()
    t.equal(
      (await f.movePayout(key, wallet, { base: address })).status,
      200,
      'another wallet on the same chain',
    )

    f.clock.nowMs += 60 * 60_000
    t.equal((await patch({ displayName: 'Name 10' })).status, 200)
    t.equal((await f.movePayout(key, wallet, { solana })).status, 200)
  },
)

t.test("no seller takes one of the operator's words and brands, however it is spelt", async (t) => {
  const options = { reservedUsernames: ['coinbase', 'well_known_bank', 'visa', 'support'] }
  const f = await startAdmin(t, { options, serviceName: 'Pay Example' })
  const { key } = await f.store()
  const underscores = ['coinbase', 'coin_base', '_coinbase_', 'wellknownbank', 'pay_example', 'healthz']
  const digits = ['c01nbase', 'co1n_ba5e', 'v1sa', 'we11_known_8ank', '5upp0r7']
  const together = ['coinbase_support', 'support__v1sa', '_visa_visa']
  for (const username of [...underscores, ...digits, ...together]) {
    const renamed = await f.call('PATCH', '/api/v1/profile', { key, body: { username } })
    const opened = await f.signUp(evmWallet(), { username })
    for (const { status, body } of [renamed, opened]) {
      t.equal(status, 400, username)
      t.match(body.error, { code: 'VALIDATION_ERROR', details: [{ path: 'username', code: 'reserved' }] })
    }
  }
  for (const username of ['coinbase_fan', 'my_bank', 'vlsa', 'mall', '___', '101', 'supports']) {
    t.equal((await f.signUp(evmWallet(), { username })).status, 201)
  }
})

t.test('sizes are counted in characters and every wrong field is named', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const patch = (body: unknown) => f.call('PATCH', '/api/v1/profile', { key, body })
  t.equal((await patch({ displayName: '🦆'.repeat(50), bio: '🦆'.repeat(160) })).status, 200)
  const wrong = await patch({
    displayName: '🦆'.repeat(51),
    bio: 'x'.repeat(161),
    username: null,
    payout: 'x',
  })
  t.equal(wrong.status, 400)
  t.same(wrong.body.error.details.map((d: { path: string }) => d.path).sort(), [
    'bio',
    'displayName',
    'payout',
    'username',
  ])
  const near = await patch({ displayname: 'x' })
  t.same(near.body.error.details, [
    { path: 'displayname', code: 'unknown_field', message: 'Unknown field. Did you mean "displayName"?' },
  ])
  const wallet = await patch({ payout: { base: solanaWallet().address } })
  t.equal(wallet.body.error.code, 'INVALID_ADDRESS')
})

t.test('no address that everyone sees carries a name or a password', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const link = (await f.call('POST', '/api/v1/links', { key, body: { url, title: 'A link' } })).body.data
  for (const address of [
    'https://me:secret@img.example/a.png',
    'https://me@img.example',
    'http://:x@h/',
    'https:///x',
  ]) {
    for (const [method, path, body] of [
      ['PATCH', '/api/v1/profile', { avatarUrl: address }],
      ['POST', '/api/v1/avatar', { avatarUrl: address }],
      ['POST', '/api/v1/socials', { socials: [{ type: 'website', url: address }] }],
      ['PATCH', `/api/v1/links/${link.id}`, { iconUrl: address }],
      ['POST', '/api/v1/payments', { amount: '1', title: 'x', successUrl: address }],
      ['POST', '/api/v1/payments', { amount: '1', title: 'x', cancelUrl: address }],
      ['POST', '/api/v1/payments', { amount: '1', title: 'x', allowedOrigin: address }],
    ] as const) {
      const refused = await f.call(method, path, { key, body })
      t.equal(refused.status, 400, `${path} ${JSON.stringify(body)}`)
      t.notMatch(refused.text, /secret/, 'nor does the refusal')
    }
  }
  for (const avatarUrl of ['https://img.example/a@2x.png', 'https://img.example?by=me@example.com', ''])
    t.equal((await f.call('PATCH', '/api/v1/profile', { key, body: { avatarUrl } })).status, 200, avatarUrl)
})
