import t from 'tap'
import { publicUrl, startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { evmWallet } from '../../test/helpers/admin-api/wallets.ts'
import { clientBucket } from './callers.ts'

const MINUTE_MS = 60_000

t.test('a key has so many requests a minute, and the answers count down', async (t) => {
  const f = await startAdmin(t, { limits: { keyPerMinute: 3, keyPerHour: 100 } })
  const { key } = await f.store()
  f.clock.nowMs += MINUTE_MS
  const reset = String(Math.ceil((f.clock.nowMs + MINUTE_MS) / 1000))
  for (const remaining of ['2', '1', '0']) {
    const { status, headers } = await f.call('GET', '/api/v1/profile', { key })
    t.equal(status, 200)
    t.equal(headers['x-ratelimit-limit'], '3')
    t.equal(headers['x-ratelimit-remaining'], remaining)
    t.equal(headers['x-ratelimit-reset'], reset, 'seconds since 1970')
  }
  const refused = await f.call('GET', '/api/v1/profile', { key })
  t.equal(refused.status, 429)
  t.equal(refused.body.error.code, 'RATE_LIMIT_EXCEEDED')
  t.equal(refused.body.error.retryable, true)
  t.equal(refused.headers['retry-after'], '60')
  t.equal(refused.headers['x-ratelimit-remaining'], '0')
  t.equal(refused.headers['x-ratelimit-reset'], reset)
  f.clock.nowMs += MINUTE_MS
  t.equal((await f.call('GET', '/api/v1/profile', { key })).status, 200)
})

t.test(
  'the hour counts too, the tighter one is shown, and refusals of the minute cost it nothing',
  async (t) => {
    const f = await startAdmin(t, { limits: { keyPerMinute: 3, keyPerHour: 5 } })
    const { key } = await f.store()
    f.clock.nowMs += 60 * MINUTE_MS
    const ask = () => f.call('GET', '/api/v1/profile', { key })
    const shown = []
    for (let i = 0; i < 6; i++) {
      const { status, headers } = await ask()
      shown.push([status, headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']])
    }
    t.same(shown, [
      [200, '3', '2'],
      [200, '3', '1'],
      [200, '3', '0'],
      [429, '3', '0'],
      [429, '3', '0'],
      [429, '3', '0'],
    ])
    f.clock.nowMs += MINUTE_MS
    t.same((await ask()).headers['x-ratelimit-limit'], '5', 'now the hour is tighter')
    t.equal((await ask()).status, 200)
    const refused = await ask()
    t.equal(refused.status, 429)
    t.equal(refused.headers['retry-after'], String(59 * 60))
  },
)

t.test('a page of another origin uses up nothing of what its reader may ask', async (t) => {
  const f = await startAdmin(t, {
    limits: { noncePerMinute: 1, signupPerHour: 1, reviewsPerHour: 1 },
  })
  const own = new URL(publicUrl).origin
  const simple = { 'content-type': 'text/plain' }
  for (const path of [
    ...['/api/agent/auth/nonce', '/api/agent/signup', '/api/reviews'],
    ...['/api/dashboard/nonce', '/api/dashboard/session'],
  ]) {
    for (const headers of [
      ...['https://evil.example', 'http://pay.example', 'null'].map((origin) => ({ origin })),
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ])
      for (let i = 0; i < 10; i++)
        t.equal((await f.call('POST', path, { headers: { ...simple, ...headers } })).status, 403)
    const response = await f.call('POST', path, { headers: { origin: own }, body: {} })
    t.equal(response.status, 400, `${path}: the reader's own first request is heard`)
  }
  for (let i = 0; i < 70; i++)
    await f.call('GET', '/api/payer', { headers: { 'sec-fetch-site': 'cross-site' } })
  t.equal((await f.call('GET', '/api/payer', { headers: { 'sec-fetch-site': 'same-origin' } })).status, 400)
})

t.test("one key's use is not another's", async (t) => {
  const f = await startAdmin(t, { limits: { keyPerMinute: 2 } })
  const [one, two] = [await f.store(), await f.store()]
  f.clock.nowMs += MINUTE_MS
  for (let i = 0; i < 3; i++) await f.call('GET', '/api/v1/profile', { key: one.key })
  t.equal((await f.call('GET', '/api/v1/profile', { key: one.key })).status, 429)
  t.equal((await f.call('GET', '/api/v1/profile', { key: two.key })).status, 200)
})

t.test("a new key for each minute's requests is no way past the limits", async (t) => {
  const f = await startAdmin(t, { limits: { newKeysPerHour: 3 } })
  const { key } = await f.store()
  const statuses: number[] = []
  for (let made = 0; made < 5; made++) {
    const { status, body, headers } = await f.call('POST', '/api/agent/keys', { key })
    statuses.push(status)
    if (status !== 201) {
      t.equal(body.error.code, 'RATE_LIMIT_EXCEEDED')
      t.equal(headers['retry-after'], '3600')
      continue
    }
    t.equal(
      (await f.call('DELETE', `/api/agent/keys/${body.data.id}`, { key: body.data.apiKey })).status,
      200,
    )
  }
  t.same(statuses, [201, 201, 201, 429, 429])
  t.equal((await f.call('POST', '/api/agent/keys', { key: (await f.store()).key })).status, 201, 'each store')
  f.clock.nowMs += 60 * MINUTE_MS
  t.equal((await f.call('POST', '/api/agent/keys', { key })).status, 201)
})

t.test('without a key an address is counted, an IPv6 one by its /64', async (t) => {
  const f = await startAdmin(t, { limits: { noncePerMinute: 2, signupPerHour: 2, storePerMinute: 2 } })
  const { address } = evmWallet()
  const routes = [
    ['POST', '/api/agent/auth/nonce', { address, chain: 'base' }],
    ['POST', '/api/agent/signup', { address, chain: 'base', signature: 's' }],
    ['GET', '/api/store/nobody', undefined],
  ] as const
  let texts = 0
  for (const [method, path, given] of routes) {
    const ask = async (ip: string) => {
      const body = path.endsWith('signup') ? { ...given, message: `text ${texts++}` } : given
      return (await f.call(method, path, { ip, ...(body && { body }) })).status
    }
    const first = await ask('198.51.100.1')
    t.equal(await ask('198.51.100.1'), first)
    t.equal(await ask('198.51.100.1'), 429, path)
    t.equal(await ask('198.51.100.2'), first)
    t.equal(await ask('2001:db8:1:2::1'), first)
    t.equal(await ask('2001:db8:1:2:ffff::9'), first)
    t.equal(await ask('2001:db8:1:2:3::4'), 429)
    t.equal(await ask('2001:db8:1:3::1'), first)
    t.equal(await ask('::ffff:198.51.100.1'), 429, 'the same IPv4 address')
  }
})

t.test('a signed text costs the hour once, however often it is sent, and the answers say so', async (t) => {
  const f = await startAdmin(t, { limits: { signupPerHour: 2 } })
  const wallet = evmWallet()
  const { address, chain } = wallet
  const signed = async () => {
    const { message } = (await f.call('POST', '/api/agent/auth/nonce', { body: { address, chain } })).body
      .data
    return { address, chain, message, signature: await wallet.sign(message) }
  }
  const ask = async (body: object) => {
    const { status, headers } = await f.call('POST', '/api/agent/signup', { body })
    return [status, headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']]
  }
  const [one, two, three] = [await signed(), await signed(), await signed()]
  const reserved = { ...one, username: 'admin' }
  t.same(await ask(reserved), [400, '2', '1'], 'a name that can not be had')
  for (let i = 0; i < 3; i++)
    t.same(await ask(one), [201, '2', '1'], 'a client that hears nothing asks again')
  t.same(await ask({ ...two, chain: 'etherium' }), [400, '2', '1'], 'what can not be read costs nothing')
  t.same(await ask(two), [200, '2', '0'])
  for (let i = 0; i < 2; i++) t.same(await ask(three), [429, '2', '0'], 'a refused text was not paid for')
  t.same(await ask(one), [201, '2', '0'], 'those that were still are')
  f.clock.nowMs += MINUTE_MS
  for (let i = 0; i < 5; i++) await ask(one)
  t.same(await ask(one), [429, '2', '0'], 'but not without end')
  f.clock.nowMs += 60 * MINUTE_MS
  t.same((await ask(await signed()))[2], '1')
})

t.test('requests to sign up are few a minute, whatever they hold', async (t) => {
  const f = await startAdmin(t, { limits: { signupPerHour: 1 } })
  const ask = async () => (await f.call('POST', '/api/agent/signup', { body: '{' })).status
  for (let i = 0; i < 6; i++) t.equal(await ask(), 400)
  t.equal(await ask(), 429)
})

t.test('X-Forwarded-For counts from the gateway on this machine, and from nobody else', async (t) => {
  const f = await startAdmin(t, { limits: { storePerMinute: 1 } })
  const ask = async (ip: string, forwarded: string) =>
    (await f.call('GET', '/api/store/nobody', { ip, headers: { 'x-forwarded-for': forwarded } })).status
  t.equal(await ask('127.0.0.1', '198.51.100.1'), 404)
  t.equal(await ask('127.0.0.1', '198.51.100.1'), 429)
  t.equal(await ask('127.0.0.1', '198.51.100.2'), 404)
  t.equal(await ask('127.0.0.1', '9.9.9.9, 198.51.100.2'), 429, 'only the last hop was seen by the gateway')
  t.equal(await ask('203.0.113.7', '198.51.100.3'), 404)
  t.equal(await ask('203.0.113.7', '198.51.100.4'), 429, 'a stranger names whom he likes')
  t.equal(await ask('127.0.0.1', 'nonsense'), 404)
})

t.test('whoever tries keys is slowed down, whoever has one is not', async (t) => {
  const f = await startAdmin(t, { limits: { badKeyPerMinute: 2 } })
  const { key } = await f.store()
  const ask = async (headers: Record<string, string>) =>
    (await f.call('GET', '/api/v1/profile', { headers })).status
  t.same([await ask({}), await ask({}), await ask({})], [401, 401, 429])
  t.equal(await ask({ authorization: `Bearer ${key}` }), 200)
})

t.test('addresses fall into buckets', async (t) => {
  t.equal(clientBucket('192.0.2.1'), '192.0.2.1')
  t.equal(clientBucket('::ffff:192.0.2.1'), '192.0.2.1')
  t.equal(clientBucket('2001:db8::1'), '2001:db8:0:0/64')
  t.equal(clientBucket('2001:0db8:0000::ffff:1'), '2001:db8:0:0/64')
  t.equal(clientBucket(''), 'unknown')
  t.equal(clientBucket('nonsense'), 'unknown')
})
