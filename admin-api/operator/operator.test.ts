import t from 'tap'
import { startJob } from '../../core/jobs/job.ts'
import { silentLog } from '../../core/ports/log.ts'
import { cookieIn, samePage, signInBrowser } from '../../test/helpers/admin-api/browser.ts'
import {
  startWithOperator as service,
  signInOperator as signIn,
  operatorToken as token,
} from '../../test/helpers/admin-api/operator.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

t.test('it lives, it is ready, and it says what is missing when it is not', async (t) => {
  const reasons: string[] = []
  const f = await startAdmin(t, { ready: async () => reasons })
  t.same((await f.call('GET', '/healthz')).body, { success: true, data: { status: 'ok' } })
  t.same((await f.call('GET', '/readyz')).body, { success: true, data: { status: 'ready' } })
  reasons.push('The database takes no writes.')
  const direct = await f.call('GET', '/readyz')
  t.equal(direct.status, 503)
  t.equal(direct.body.error.code, 'NOT_READY')
  t.equal(direct.body.error.details[0].message, 'The database takes no writes.')
  const proxied = await f.call('GET', '/readyz', { headers: { 'x-forwarded-for': '198.51.100.1' } })
  t.equal(proxied.status, 503)
  t.equal(proxied.body.error.details, undefined)
  t.equal((await f.call('GET', '/healthz')).status, 200)
  t.same(f.logged, [], 'an unready service does not fill its log with it')
})

t.test('figures are for the operator: not through the gateway unless they are opened', async (t) => {
  const f = await startAdmin(t)
  const direct = await f.call('GET', '/metrics')
  t.equal(direct.status, 200)
  t.equal(direct.text, 'up 1\n')
  t.match(direct.headers['content-type'], /^text\/plain/)
  const headers = { 'x-forwarded-for': '198.51.100.1' }
  t.equal((await f.call('GET', '/metrics', { headers })).status, 404)
  const open = await startAdmin(t, { options: { operatorAccess: 'anyone' } })
  t.equal((await open.call('GET', '/metrics', { headers })).status, 200)
  const none = await startAdmin(t, { metrics: { source: undefined } })
  t.equal((await none.call('GET', '/metrics')).body.error.code, 'NOT_FOUND')
})

t.test("a page of another origin uses up none of the operator's tries", async (t) => {
  const f = await service(t)
  const elsewhere = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
  for (let i = 0; i < 20; i++) t.equal((await signIn(f, 'wrong', elsewhere)).status, 403)
  t.equal((await signIn(f, token)).status, 201)
})

t.test('the operator signs in with the token, and with nothing else', async (t) => {
  const f = await service(t)
  for (const wrong of [`${token}x`, token.slice(1), token.toUpperCase(), ' ']) {
    const response = await signIn(f, wrong, samePage, `198.51.100.${wrong.length}`)
    t.match(response, { status: 401, body: { error: { code: 'UNAUTHORIZED' } } })
    t.equal(response.headers['set-cookie'], undefined)
  }
  t.notMatch(JSON.stringify(f.logged), token.slice(1))
  t.equal((await signIn(f, token, { origin: 'https://evil.example' })).status, 403)
  const response = await signIn(f, token)
  t.equal(response.status, 201)
  t.match(
    String(response.headers['set-cookie']),
    /^__Host-tollgate_operator=[\w-]{43}; .*HttpOnly; SameSite=Strict; Secure$/,
  )
  const cookie = cookieIn(response)
  t.equal((await f.call('GET', '/api/operator/session', { headers: { cookie } })).status, 200)
  const out = await f.call('DELETE', '/api/operator/session', { headers: { ...samePage, cookie } })
  t.equal(out.status, 200)
  t.equal((await f.call('GET', '/api/operator/session', { headers: { cookie } })).status, 401)
})

t.test('five tries a minute, also with the right token at last', async (t) => {
  const f = await service(t)
  for (let i = 0; i < 5; i++) t.equal((await signIn(f, `wrong-${i}`)).status, 401)
  t.match(await signIn(f, token), { status: 429, headers: { 'retry-after': /\d+/ } })
  f.clock.nowMs += 60_000
  t.equal((await signIn(f, token)).status, 201)
})

t.test("a seller is no operator, and the operator's cookie opens no store", async (t) => {
  const f = await service(t)
  const seller = await signInBrowser(f)
  const { key } = await f.store()
  for (const path of ['status', 'config', 'session']) {
    t.equal((await seller.call('GET', `/api/operator/${path}`)).status, 401)
    t.equal((await f.call('GET', `/api/operator/${path}`, { key })).status, 401)
  }
  const sellerToken = seller.cookie.split('=')[1]!
  const swapped = { cookie: `__Host-tollgate_operator=${sellerToken}` }
  t.equal((await f.call('GET', '/api/operator/status', { headers: swapped })).status, 401)
  const operator = cookieIn(await signIn(f, token)).split('=')[1]!
  const other = { cookie: `__Host-tollgate_seller=${operator}` }
  t.equal((await f.call('GET', '/api/v1/profile', { headers: other })).status, 401)
})

t.test(
  'a session ends with its token, for good, and not with another process of the same token',
  async (t) => {
    const first = await service(t)
    const { browserSessions } = first.db
    const { sealer } = first
    const start = (more: object) => service(t, more, { browserSessions, sealer })
    const isSignedIn = async (f: typeof first, cookie: string) =>
      (await f.call('GET', '/api/operator/session', { headers: { cookie } })).status === 200
    const cookie = cookieIn(await signIn(first))
    const seller = await signInBrowser(first)
    const second = await start({})
    t.ok((await isSignedIn(first, cookie)) && (await isSignedIn(second, cookie)))

    const changed = 'another-token-of-32-characters-or-more'
    const third = await start({ token: changed })
    t.notOk(await isSignedIn(third, cookie))
    const ofAnother = cookieIn(await signIn(third, changed))
    const fourth = await start({})
    t.notOk(await isSignedIn(fourth, cookie), 'the first token again revives nothing')
    const again = cookieIn(await signIn(fourth))
    t.ok(await isSignedIn(fourth, again))
    t.notOk(await isSignedIn(await start({ token: changed }), ofAnother))
    await startAdmin(t, { browserSessions, sealer })
    t.notOk(await isSignedIn(await start({}), again), 'nor does it after a time without any')
    t.equal((await seller.call('GET', '/api/v1/profile')).status, 200, "sellers' sessions stand on no token")
  },
)

t.test('without a token in the configuration there is nothing here', async (t) => {
  const f = await startAdmin(t)
  for (const [method, path] of [
    ['GET', '/operator'],
    ['GET', '/api/operator/session'],
    ['GET', '/api/operator/status'],
    ['GET', '/api/operator/config'],
    ['POST', '/api/operator/session'],
    ['DELETE', '/api/operator/session'],
  ] as const) {
    const body = method === 'POST' ? { body: { token } } : {}
    t.equal((await f.call(method, path, { headers: samePage, ...body })).status, 404, `${method} ${path}`)
  }
})

t.test('the state says what is on its way, owed and put off, with amounts in words', async (t) => {
  const f = await service(t)
  const { id: storeId, key } = await f.store()
  const body = { url: await f.seller(), title: 'One' }
  const { id: linkId } = (await f.call('POST', '/api/v1/links', { key, body })).body.data
  for (const state of ['pending', 'settling', 'refund_due', 'delivered'] as const)
    await sell(f.db, { storeId, linkId, amount: '0.1', atMs: f.clock.nowMs, state })
  const failing = startJob({
    name: 'write the counts',
    everyMs: 60_000,
    log: silentLog,
    run() {
      throw new Error('The disk is full.')
    },
  })
  t.teardown(() => failing.stop())
  await failing.runNow()
  const ended = Promise.withResolvers<void>()
  const hanging = startJob({
    name: 'ask a node',
    everyMs: 60_000,
    startsNow: true,
    log: silentLog,
    run: () => ended.promise,
  })
  t.teardown(() => hanging.stop())
  t.teardown(() => ended.resolve())
  Object.defineProperty(hanging, 'runningMs', { value: 360_000 })
  const cookie = cookieIn(await signIn(f, token))
  const { data } = (await f.call('GET', '/api/operator/status', { headers: { cookie } })).body
  t.same(data.pending.rows.map((row: { state: string }) => row.state).sort(), ['pending', 'settling'])
  t.match(data.refundsDue, { hasMore: false, rows: [{ state: 'refund_due', amount: '0.10 USDC', storeId }] })
  t.match(data, {
    problems: { length: 0 },
    parked: { total: 0 },
    networks: [{ problems: ['The key has little gas.'] }],
  })
  const job = data.jobs.find(({ name }: { name: string }) => name === 'write the counts')
  t.strictSame(job, {
    name: 'write the counts',
    lastRunAt: new Date(failing.lastRunAtMs!).toISOString(),
    lastDurationMs: failing.lastDurationMs,
    lastError: 'The disk is full.',
  })
  t.match(
    data.jobs.find(({ name }: { name: string }) => name === 'ask a node'),
    { lastError: 'The last run has not ended for 6 minutes.' },
    'a run without an end is no success',
  )
  const config = await f.call('GET', '/api/operator/config', { headers: { cookie } })
  t.same(config.body.data, { publicUrl: 'https://pay.example' })
  const elsewhere = { cookie, 'sec-fetch-site': 'cross-site' }
  t.equal((await f.call('GET', '/api/operator/config', { headers: elsewhere })).status, 403)
})
