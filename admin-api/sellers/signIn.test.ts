import t from 'tap'
import { cookieIn, samePage, signInBrowser, trySignIn } from '../../test/helpers/admin-api/browser.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { evmWallet, solanaWallet } from '../../test/helpers/admin-api/wallets.ts'

const HOUR_MS = 60 * 60_000
const DAY_MS = 24 * HOUR_MS

t.test(
  'a wallet signs in to its store: the cookie is out of reach for scripts and other sites',
  async (t) => {
    const f = await startAdmin(t)
    for (const wallet of [evmWallet(), solanaWallet()]) {
      const { body } = await f.signUp(wallet)
      const { store, apiKey } = body.data
      const keys = (await f.call('GET', '/api/agent/keys', { key: apiKey })).body.data.keys.length
      const response = await trySignIn(f, wallet)
      t.equal(response.status, 201)
      t.match(response.body.data.store, { username: store.username, developerModeEnabled: false })
      t.match(
        String(response.headers['set-cookie']),
        /^__Host-tollgate_seller=[\w-]{43}; Max-Age=604800; Path=\/; HttpOnly; SameSite=Strict; Secure$/,
      )
      const profile = await f.call('GET', '/api/v1/profile', { headers: { cookie: cookieIn(response) } })
      t.equal(profile.body.username, store.username)
      const after = (await f.call('GET', '/api/agent/keys', { key: apiKey })).body.data.keys
      t.equal(after.length, keys, 'no key was made')
    }
  },
)

t.test('on plain http the cookie has a plain name, so that localhost works', async (t) => {
  const f = await startAdmin(t, { publicUrl: 'http://localhost:8080' })
  const headers = { origin: 'http://localhost:8080' }
  const response = await trySignIn(f, evmWallet(), { openStore: true }, headers)
  t.equal(response.status, 201)
  t.match(
    String(response.headers['set-cookie']),
    /^tollgate_seller=[\w-]{43}; Max-Age=604800; Path=\/; HttpOnly; SameSite=Strict$/,
  )
})

t.test(
  'a wallet without a store is told so, and gets one with the same signature, without a key',
  async (t) => {
    const f = await startAdmin(t)
    const wallet = evmWallet()
    const { address, chain } = wallet
    const nonce = await f.call('POST', '/api/dashboard/nonce', { body: { address, chain } })
    const { message } = nonce.body.data
    const signed = { address, chain, message, signature: await wallet.sign(message) }
    const post = (more: object) =>
      f.call('POST', '/api/dashboard/session', { body: { ...signed, ...more }, headers: samePage })
    const none = await post({})
    t.match(none, { status: 404, body: { error: { code: 'STORE_NOT_FOUND' } } })
    t.equal(none.headers['set-cookie'], undefined)
    await f.store()
    const taken = (await f.db.stores.byWallet('base', (await f.store()).wallet.address.toLowerCase()))!
      .username
    t.equal((await post({ openStore: true, username: taken })).body.error.code, 'USERNAME_TAKEN')
    const made = await post({ openStore: true, username: 'weather', displayName: 'Weather' })
    t.match(made, { status: 201, body: { data: { store: { username: 'weather', displayName: 'Weather' } } } })
    const { id } = made.body.data.store
    t.same(await f.db.keys.ofStore(id), [])
    t.equal((await f.db.stores.find(id))?.payout.base?.toLowerCase(), address.toLowerCase())
    t.equal((await post({})).body.error.code, 'NONCE_EXPIRED', 'a text is good for one session')
  },
)

t.test('who is nobody hears how a program and how a person in a browser gets in', async (t) => {
  const f = await startAdmin(t)
  const { error } = (await f.call('GET', '/api/v1/profile')).body
  t.match(error, { code: 'UNAUTHORIZED', message: /API key is missing.*Authorization: Bearer/ })
  t.match(error.message, 'In a browser, sign in at https://pay.example/dashboard')
  const stale = await f.call('GET', '/api/v1/profile', { key: 'tg_live_unknown' })
  t.match(stale.body.error.message, /key is unknown or revoked/)
})

t.test('a text that was signed for something else signs nobody in, and the other way round', async (t) => {
  const f = await startAdmin(t)
  const wallet = evmWallet()
  await f.signUp(wallet)
  const { address, chain } = wallet
  const send = async (from: string, to: string, more = {}) => {
    const { message } = (await f.call('POST', from, { body: { address, chain } })).body.data
    const body = { address, chain, message, signature: await wallet.sign(message), ...more }
    return f.call('POST', to, { body, headers: samePage })
  }
  const forKey = await send('/api/agent/auth/nonce', '/api/dashboard/session')
  t.match(forKey, { status: 401, body: { error: { code: 'NONCE_EXPIRED' } } })
  t.match(await send('/api/dashboard/nonce', '/api/agent/signup'), { status: 401 })
  const other = evmWallet()
  const { message } = (await f.call('POST', '/api/dashboard/nonce', { body: { address, chain } })).body.data
  const foreign = { address, chain, message, signature: await other.sign(message) }
  const refused = await f.call('POST', '/api/dashboard/session', { body: foreign, headers: samePage })
  t.match(refused, { status: 401, body: { error: { code: 'INVALID_SIGNATURE' } } })
})

t.test(
  'nobody chooses the token of somebody else: signing in makes a new one and ends the one that came',
  async (t) => {
    const f = await startAdmin(t)
    const attacker = await signInBrowser(f)
    const victim = evmWallet()
    const response = await trySignIn(f, victim, { openStore: true }, { ...samePage, cookie: attacker.cookie })
    t.not(cookieIn(response), attacker.cookie)
    const planted = { ...samePage, cookie: `__Host-tollgate_seller=${'A'.repeat(43)}` }
    t.notMatch(cookieIn(await trySignIn(f, victim, {}, planted)), /A{43}/)
    t.equal((await attacker.call('GET', '/api/v1/profile')).status, 401)
    const doubled = `${cookieIn(response)}; ${attacker.cookie}`
    t.equal((await f.call('GET', '/api/v1/profile', { headers: { cookie: doubled } })).status, 401)
  },
)

t.test('what changes something needs a page of this service and its CSRF token', async (t) => {
  const f = await startAdmin(t)
  const browser = await signInBrowser(f)
  const other = await signInBrowser(f)
  const { cookie, csrfToken } = browser
  const patch = (headers: Record<string, string>) =>
    f.call('PATCH', '/api/v1/profile', { body: { bio: 'changed' }, headers: { cookie, ...headers } })
  const token = { 'x-csrf-token': csrfToken }
  for (const [why, headers] of Object.entries<Record<string, string>>({
    'no origin': token,
    'another origin': { ...token, origin: 'https://evil.example' },
    'an origin that begins alike': { ...token, origin: 'https://pay.example.evil.example' },
    'plain http of the same host': { ...token, origin: 'http://pay.example' },
    'a sandboxed page': { ...token, origin: 'null' },
    'a sister site': { ...token, origin: 'https://pay.example', 'sec-fetch-site': 'same-site' },
    'another site': { ...token, 'sec-fetch-site': 'cross-site' },
    'no token': samePage,
    "another session's token": { ...samePage, 'x-csrf-token': other.csrfToken },
    'a token of another length': { ...samePage, 'x-csrf-token': 'é' },
  })) {
    t.match(await patch(headers), { status: 403, body: { error: { code: 'FOREIGN_ORIGIN' } } }, why)
  }
  t.equal((await browser.call('GET', '/api/v1/profile')).body.bio, '')
  t.equal((await patch({ ...token, origin: 'https://pay.example' })).status, 200, 'an older browser')
  t.equal((await patch({ ...token, 'sec-fetch-site': 'same-origin' })).status, 200)
  const crossRead = { cookie, 'sec-fetch-site': 'cross-site' }
  t.equal((await f.call('GET', '/api/v1/profile', { headers: crossRead })).status, 403)
  const ofAnother = { ...samePage, cookie, 'x-csrf-token': other.csrfToken }
  t.match(await f.call('GET', '/api/v1/profile', { headers: ofAnother }), {
    ...{ status: 403, body: { error: { code: 'FOREIGN_ORIGIN' } } },
  })
  const wallet = evmWallet()
  const foreignSignIn = await trySignIn(f, wallet, { openStore: true }, { origin: 'https://evil.example' })
  t.match(foreignSignIn, { status: 403, body: { error: { code: 'FOREIGN_ORIGIN' } } })
  t.equal(foreignSignIn.headers['set-cookie'], undefined)
  const foreignSignOut = { cookie, origin: 'https://evil.example' }
  t.equal((await f.call('DELETE', '/api/dashboard/session', { headers: foreignSignOut })).status, 403)
})

t.test('a page elsewhere keeps nobody from signing in, however much it asks', async (t) => {
  const f = await startAdmin(t, { limits: { noncePerMinute: 2 } })
  const headers = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
  for (const path of ['/api/agent/auth/nonce', '/api/dashboard/nonce', '/api/dashboard/session']) {
    for (let i = 0; i < 3; i++) await f.call('POST', path, { headers })
  }
  t.equal((await trySignIn(f, evmWallet(), { openStore: true })).status, 201)
})

t.test(
  'a session ends after twelve hours without use, and after seven days however it is used',
  async (t) => {
    const f = await startAdmin(t)
    const idle = await signInBrowser(f)
    f.clock.nowMs += 12 * HOUR_MS - 1
    t.equal((await idle.call('GET', '/api/v1/profile')).status, 200)
    f.clock.nowMs += 12 * HOUR_MS
    t.equal((await idle.call('GET', '/api/v1/profile')).status, 401)
    const busy = await signInBrowser(f)
    const beganMs = f.clock.nowMs
    for (; f.clock.nowMs < beganMs + 7 * DAY_MS; f.clock.nowMs += 6 * HOUR_MS)
      t.equal((await busy.call('GET', '/api/v1/profile')).status, 200)
    const over = await busy.call('GET', '/api/v1/profile')
    t.match(over, { status: 401, body: { error: { message: /session has ended/ } } })
  },
)

t.test('the owner lists the sessions of the store and ends them; nobody else does', async (t) => {
  const f = await startAdmin(t)
  const wallet = evmWallet()
  const [here, there, stranger] = [
    await signInBrowser(f, wallet),
    await signInBrowser(f, wallet, { ...samePage, 'user-agent': 'Firefox\u0007é' }),
    await signInBrowser(f),
  ]
  const { sessions } = (await here.call('GET', '/api/dashboard/sessions')).body.data
  t.equal(sessions.length, 2)
  const other = sessions.find((one: { isThisOne: boolean }) => !one.isThisOne)
  t.match(other, { userAgent: 'Firefox', wallet: { chain: 'base' } })
  t.equal((await stranger.call('DELETE', `/api/dashboard/sessions/${other.id}`)).status, 404)
  t.equal((await there.call('GET', '/api/v1/profile')).status, 200)
  t.equal((await here.call('DELETE', `/api/dashboard/sessions/${other.id}`)).status, 200)
  t.equal((await there.call('GET', '/api/v1/profile')).status, 401)
  t.equal((await here.call('DELETE', '/api/dashboard/sessions/nope')).status, 404)
  const { key } = await f.store()
  t.equal((await f.call('GET', '/api/dashboard/session', { key })).body.error.code, 'FORBIDDEN')

  const out = await here.call('DELETE', '/api/dashboard/session')
  t.match(String(out.headers['set-cookie']), /^__Host-tollgate_seller=; Max-Age=0;/)
  t.equal((await here.call('GET', '/api/dashboard/session')).status, 401)
  t.equal((await here.call('DELETE', '/api/dashboard/session')).status, 200, 'once more')
})

t.test('a store keeps its last twenty sessions', async (t) => {
  const f = await startAdmin(t)
  const wallet = evmWallet()
  const first = await signInBrowser(f, wallet)
  let last = first
  for (let i = 0; i < 20; i++) {
    f.clock.nowMs += 1
    last = await signInBrowser(f, wallet)
  }
  t.equal((await first.call('GET', '/api/v1/profile')).status, 401)
  t.equal((await last.call('GET', '/api/dashboard/sessions')).body.data.sessions.length, 20)
})

t.test('without Developer Mode a browser makes no key, and keys that work go on working', async (t) => {
  const f = await startAdmin(t)
  const wallet = evmWallet()
  const { apiKey } = (await f.signUp(wallet)).body.data
  const browser = await signInBrowser(f, wallet)
  const refused = await browser.call('POST', '/api/agent/keys', { name: 'x' })
  t.match(refused, { status: 403, body: { error: { code: 'FORBIDDEN', message: /Developer Mode/ } } })
  t.equal((await f.call('POST', '/api/agent/keys', { key: apiKey, body: { name: 'y' } })).status, 201)
  await browser.call('PATCH', '/api/v1/profile', { developerModeEnabled: true })
  const made = await browser.call('POST', '/api/agent/keys', { name: 'x' })
  t.equal(made.status, 201)
  await browser.call('PATCH', '/api/v1/profile', { developerModeEnabled: false })
  for (const key of [apiKey, made.body.data.apiKey])
    t.equal((await f.call('GET', '/api/v1/profile', { key })).status, 200)
})

t.test('requests of browsers count per store; a key beside the cookie is judged alone', async (t) => {
  const f = await startAdmin(t, { limits: { dashboardPerMinute: 3 } })
  const wallet = evmWallet()
  const { apiKey } = (await f.signUp(wallet)).body.data
  const [one, two] = [await signInBrowser(f, wallet), await signInBrowser(f, wallet)]
  const stranger = await signInBrowser(f)
  for (const browser of [one, two, one]) t.equal((await browser.call('GET', '/api/v1/profile')).status, 200)
  t.match(await two.call('GET', '/api/v1/profile'), { status: 429, headers: { 'retry-after': /\d+/ } })
  t.equal((await stranger.call('GET', '/api/v1/profile')).status, 200)
  const both = (key: string) => f.call('GET', '/api/v1/profile', { key, headers: { cookie: one.cookie } })
  t.equal((await both(apiKey)).status, 200)
  t.equal((await both('tg_live_nonsense')).status, 401)
})

t.test('neither log nor answer has the token, and the store only its hash', async (t) => {
  const f = await startAdmin(t)
  const browser = await signInBrowser(f)
  const token = browser.cookie.split('=')[1]!
  t.notMatch(browser.response.text, token)
  t.notMatch((await browser.call('GET', '/api/dashboard/sessions')).text, token)
  t.notMatch(JSON.stringify(f.logged), token)
  const [stored] = await f.db.browserSessions.ofHolder(browser.response.body.data.store.id, f.clock.nowMs)
  t.notMatch(JSON.stringify(stored), token)
})
