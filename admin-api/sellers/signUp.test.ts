import t from 'tap'
import { publicUrl, startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { evmWallet, solanaWallet, type Wallet } from '../../test/helpers/admin-api/wallets.ts'

const nonceOf = async (f: Awaited<ReturnType<typeof startAdmin>>, wallet: Wallet) => {
  const { address, chain } = wallet
  const { body } = await f.call('POST', '/api/agent/auth/nonce', { body: { address, chain } })
  return body.data as { nonce: string; message: string; expiresAt: string }
}

t.test('a wallet on either chain signs up, with every spelling of address and signature', async (t) => {
  const f = await startAdmin(t)
  const lowerCase = evmWallet()
  const wallets: Wallet[] = [
    evmWallet(),
    { ...lowerCase, address: lowerCase.address.toLowerCase() },
    solanaWallet('base64'),
    solanaWallet('base58'),
  ]
  for (const wallet of wallets) {
    const { status, body, headers } = await f.signUp(wallet)
    t.equal(status, 201)
    t.same(Object.keys(body), ['success', 'data'])
    t.same(Object.keys(body.data).sort(), ['apiKey', 'apiKeyPrefix', 'created', 'store'])
    const { store, apiKey, apiKeyPrefix } = body.data
    t.same(Object.keys(store).sort(), ['avatarUrl', 'createdBy', 'displayName', 'storeUrl', 'username'])
    t.match(store.username, /^[a-z0-9_]{3,32}$/)
    t.equal(store.storeUrl, `${publicUrl}/${store.username}`)
    t.equal(store.createdBy, 'agent')
    t.match(apiKey, /^tg_live_[0-9A-Za-z]{38}$/)
    t.ok(apiKey.startsWith(apiKeyPrefix))
    t.equal(headers['cache-control'], 'no-store')

    const profile = await f.call('GET', '/api/v1/profile', { key: apiKey })
    t.equal(profile.status, 200)
    t.equal(profile.body.payout[wallet.chain]?.toLowerCase(), wallet.address.toLowerCase())
    t.equal(profile.body.payout[wallet.chain === 'base' ? 'solana' : 'base'], null)
  }
})

t.test('the nonce step answers a text that names domain, address, nonce and end', async (t) => {
  const f = await startAdmin(t)
  for (const wallet of [evmWallet(), solanaWallet()]) {
    const { nonce, message, expiresAt } = await nonceOf(f, wallet)
    t.match(message, /^pay\.example wants you to sign in/)
    t.ok(message.includes(wallet.address))
    t.ok(message.includes(`Nonce: ${nonce}`))
    t.equal(expiresAt, new Date(f.clock.nowMs + 300_000).toISOString())
  }
})

t.test('a known wallet gets its store again, with another key and its old names', async (t) => {
  const f = await startAdmin(t)
  const wallet = evmWallet()
  const first = await f.signUp(wallet, { username: 'first_name', displayName: 'First' })
  const second = await f.signUp({ ...wallet, address: wallet.address.toLowerCase() }, { username: 'other' })
  t.equal(first.status, 201)
  t.equal(first.body.data.created, true)
  t.equal(second.status, 200)
  t.equal(second.body.data.created, false)
  t.same(second.body.data.store, first.body.data.store)
  t.not(second.body.data.apiKey, first.body.data.apiKey)
  for (const { body } of [first, second]) {
    t.equal((await f.call('GET', '/api/v1/profile', { key: body.data.apiKey })).status, 200)
  }
})

t.test(
  'a repeated sign-up gets the same answer, key included, while the nonce would have lived',
  async (t) => {
    const f = await startAdmin(t)
    const wallet = evmWallet()
    const { message } = await nonceOf(f, wallet)
    const body = { address: wallet.address, chain: 'base', message, signature: await wallet.sign(message) }
    const send = () => f.call('POST', '/api/agent/signup', { body })

    const atOnce = await Promise.all([send(), send(), send()])
    const later = await send()
    for (const response of [...atOnce, later]) {
      t.equal(response.status, 201)
      t.same(response.body, atOnce[0]!.body)
    }
    t.equal(
      (await f.db.keys.ofStore((await f.db.stores.byUsername(later.body.data.store.username))!.id)).length,
      1,
    )

    const forged = await f.call('POST', '/api/agent/signup', {
      body: { ...body, signature: await evmWallet().sign(message) },
    })
    t.equal(forged.body.error.code, 'INVALID_SIGNATURE', 'the text alone gets nobody the key')
    f.clock.nowMs += 300_001
    t.equal((await send()).body.error.code, 'NONCE_EXPIRED')
  },
)

t.test('a repeated sign-up does not bring a revoked key back', async (t) => {
  const f = await startAdmin(t)
  const wallet = evmWallet()
  const { message } = await nonceOf(f, wallet)
  const body = { address: wallet.address, chain: 'base', message, signature: await wallet.sign(message) }
  const { apiKey } = (await f.call('POST', '/api/agent/signup', { body })).body.data
  const { keys } = (await f.call('GET', '/api/agent/keys', { key: apiKey })).body.data
  await f.call('DELETE', `/api/agent/keys/${keys[0].id}`, { key: apiKey })
  const again = await f.call('POST', '/api/agent/signup', { body })
  t.equal(again.status, 401)
  t.equal(again.body.error.code, 'NONCE_EXPIRED')
})

t.test('ten sign-ups at once for one wallet, each with its own nonce, make one store', async (t) => {
  const f = await startAdmin(t, { options: { maxActiveKeys: 10 } })
  const wallet = evmWallet()
  const responses = await Promise.all(Array.from({ length: 10 }, () => f.signUp(wallet)))
  t.same(responses.map((a) => a.status).sort(), [...Array(9).fill(200), 201])
  t.equal(new Set(responses.map((a) => a.body.data.store.username)).size, 1)
  t.equal(new Set(responses.map((a) => a.body.data.apiKey)).size, 10)
})

t.test('whatever does not prove the wallet is refused with its own code', async (t) => {
  const f = await startAdmin(t)
  const [wallet, other, solana] = [evmWallet(), evmWallet(), solanaWallet()]
  const { address } = wallet
  const fresh = async (w: Wallet = wallet) => (await nonceOf(f, w)).message
  const refused = async (name: string, status: number, code: string, body: object) => {
    const response = await f.call('POST', '/api/agent/signup', { body })
    t.equal(response.status, status, name)
    t.equal(response.body.error.code, code, name)
    t.equal(response.body.success, false)
  }

  let message = await fresh()
  await refused('a signature of another wallet', 401, 'INVALID_SIGNATURE', {
    address,
    chain: 'base',
    message,
    signature: await other.sign(message),
  })
  await refused('the nonce of that attempt, although signed well now', 401, 'NONCE_EXPIRED', {
    address,
    chain: 'base',
    message,
    signature: await wallet.sign(message),
  })

  message = await fresh(other)
  await refused("another wallet's text", 401, 'NONCE_EXPIRED', {
    address,
    chain: 'base',
    message,
    signature: await wallet.sign(message),
  })

  message = await fresh(solana)
  await refused('a text of the other chain', 401, 'NONCE_EXPIRED', {
    address,
    chain: 'base',
    message,
    signature: await wallet.sign(message),
  })

  message = (await fresh()).replace('pay.example', 'evil.example')
  await refused('a text that was changed', 401, 'NONCE_EXPIRED', {
    address,
    chain: 'base',
    message,
    signature: await wallet.sign(message),
  })
  await refused('a text without a nonce', 401, 'NONCE_EXPIRED', {
    address,
    chain: 'base',
    message: 'hello',
    signature: await wallet.sign('hello'),
  })

  message = await fresh()
  f.clock.nowMs += 300_000
  await refused('a nonce of five minutes ago', 401, 'NONCE_EXPIRED', {
    address,
    chain: 'base',
    message,
    signature: await wallet.sign(message),
  })

  message = await fresh()
  for (const signature of ['0x', '0x12', 'not hex', '🦆', `0x${'00'.repeat(65)}`, `0x${'ff'.repeat(400)}`]) {
    await refused(`the signature ${signature.slice(0, 10)}`, 401, 'INVALID_SIGNATURE', {
      address,
      chain: 'base',
      message: await fresh(),
      signature,
    })
  }
  const solanaText = await fresh(solana)
  for (const signature of ['', 'AAAA', 'x'.repeat(88), Buffer.alloc(64).toString('base64')]) {
    const body = { address: solana.address, chain: 'solana', message: solanaText, signature }
    const response = await f.call('POST', '/api/agent/signup', { body })
    t.ok([400, 401].includes(response.status))
  }
})

t.test('an address that is not one of its chain is INVALID_ADDRESS at both steps', async (t) => {
  const f = await startAdmin(t)
  const cases = [
    ['base', solanaWallet().address],
    ['base', '0x1234'],
    ['base', `0x${'g'.repeat(40)}`],
    ['solana', evmWallet().address],
    ['solana', '1'.repeat(10)],
    ['solana', '0OIl'],
  ]
  for (const [chain, address] of cases) {
    const nonce = await f.call('POST', '/api/agent/auth/nonce', { body: { address, chain } })
    t.equal(nonce.status, 400)
    t.equal(nonce.body.error.code, 'INVALID_ADDRESS', `${chain} ${address}`)
    const signup = await f.call('POST', '/api/agent/signup', {
      body: { address, chain, message: 'm', signature: 's' },
    })
    t.equal(signup.body.error.code, 'INVALID_ADDRESS')
  }
})

t.test('a taken name does not use up the nonce', async (t) => {
  const f = await startAdmin(t)
  await f.signUp(evmWallet(), { username: 'taken_name' })
  const wallet = evmWallet()
  const { message } = await nonceOf(f, wallet)
  const body = { address: wallet.address, chain: 'base', message, signature: await wallet.sign(message) }
  const taken = await f.call('POST', '/api/agent/signup', { body: { ...body, username: 'taken_name' } })
  t.equal(taken.status, 409)
  t.equal(taken.body.error.code, 'USERNAME_TAKEN')
  const free = await f.call('POST', '/api/agent/signup', { body: { ...body, username: 'free_name' } })
  t.equal(free.status, 201)
  t.equal(free.body.data.store.username, 'free_name')
})

t.test('one name asked for by many wallets at once goes to one of them', async (t) => {
  const f = await startAdmin(t)
  const responses = await Promise.all(
    Array.from({ length: 6 }, () => f.signUp(evmWallet(), { username: 'wanted' })),
  )
  t.same(responses.map((a) => a.status).sort(), [201, 409, 409, 409, 409, 409])
})

t.test('a chain that cannot be asked is 503, and the same signature works afterwards', async (t) => {
  const f = await startAdmin(t)
  const wallet = evmWallet()
  const { message } = await nonceOf(f, wallet)
  const body = { address: wallet.address, chain: 'base', message, signature: await wallet.sign(message) }
  f.walletProofs.isChainDown = true
  const down = await f.call('POST', '/api/agent/signup', { body })
  t.equal(down.status, 503)
  t.equal(down.body.error.code, 'CHAIN_UNAVAILABLE')
  t.equal(down.body.error.retryable, true)
  f.walletProofs.isChainDown = false
  t.equal((await f.call('POST', '/api/agent/signup', { body })).status, 201)
})

t.test('a wallet whose store has five keys is not locked out', async (t) => {
  const f = await startAdmin(t)
  const wallet = evmWallet()
  const first = await f.signUp(wallet)
  for (let i = 0; i < 4; i++) {
    f.clock.nowMs += 1_000
    t.equal((await f.signUp(wallet)).status, 200)
  }
  const { message } = await nonceOf(f, wallet)
  const body = { address: wallet.address, chain: 'base', message, signature: await wallet.sign(message) }
  const full = await f.call('POST', '/api/agent/signup', { body })
  t.equal(full.status, 409)
  t.equal(full.body.error.code, 'LIMIT_REACHED')
  t.match(full.body.error.message, /replaceOldestKey/)
  const replaced = await f.call('POST', '/api/agent/signup', { body: { ...body, replaceOldestKey: true } })
  t.equal(replaced.status, 200)
  t.equal((await f.call('GET', '/api/v1/profile', { key: first.body.data.apiKey })).status, 401)
  t.equal((await f.call('GET', '/api/v1/profile', { key: replaced.body.data.apiKey })).status, 200)
})

t.test('names are checked, with what was expected in the answer', async (t) => {
  const f = await startAdmin(t)
  const bad = [
    'ab',
    'a'.repeat(33),
    'Upper',
    'with-dash',
    'ünï',
    'a b',
    '',
    'api',
    'docs',
    'metrics',
    'mcp',
    'pay',
  ]
  for (const username of bad) {
    const { status, body } = await f.signUp(evmWallet(), { username })
    t.equal(status, 400, username)
    t.equal(body.error.code, 'VALIDATION_ERROR')
    t.equal(body.error.details[0].path, 'username')
  }
  for (const [field, value] of [
    ['displayName', 'x'.repeat(51)],
    ['displayName', ' '],
    ['displayName', 'a\u0007b'],
    ['avatarUrl', 'javascript:alert(1)'],
    ['avatarUrl', 'data:image/png;base64,AAAA'],
  ] as const) {
    const { status, body } = await f.signUp(evmWallet(), { [field]: value })
    t.equal(status, 400, `${field} ${value}`)
    t.equal(body.error.details[0].path, field)
  }
  for (const username of ['abc', 'a'.repeat(32), '_0_']) {
    t.equal((await f.signUp(evmWallet(), { username })).status, 201)
  }
})
