import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { mock } from 'node:test'
import t from 'tap'
import { until } from '../../test/helpers/rawHttp.ts'
import { call } from '../../test/helpers/vault/remote/call.ts'
import {
  echo,
  gate,
  offerFor,
  pairedWorld,
  proxyFor,
  proxyOptions,
  relayFor,
  vaultFor,
} from '../../test/helpers/vault/remote/world.ts'
import { VaultError } from '../errors/error.ts'
import { startProxy } from './startProxy.ts'

t.test('an agent far away calls the vault through the command that the owner was given', async (t) => {
  const phrases: string[] = []
  const { vault, proxy, offer } = await pairedWorld(t, {}, { onPhrase: (phrase) => phrases.push(phrase) })
  const { identity } = vault
  t.equal(
    offer.command,
    `tollgate proxy --pair ${offer.token} --service-id bot --vault ${identity.vaultId} ` +
      `--hpke-key ${identity.keys[0]!.publicKey} --relay ${offer.command.match(/ws:\S+/)![0]} --port 8421`,
  )
  t.match(phrases, [/^([a-z]+ ){3}[a-z]+$/])
  t.strictSame(
    phrases,
    vault.questions.map(({ phrase }) => phrase),
    'both sides show the same words',
  )

  const response = await call(proxy.url, '/v1/vault/read?x=1', {
    body: { scope: 'identity.name', agent_name: 'x' },
    headers: { 'x-request-id': 'abc-1', prefer: 'wait=25', authorization: 'Bearer owner', cookie: 'a=b' },
  })
  t.equal(response.status, 200)
  t.strictSame(response.json, {
    vault: identity.vaultId,
    agent: offer.pairing.agentId,
    method: 'POST',
    path: '/v1/vault/read?x=1',
    headers: { 'content-type': 'application/json', prefer: 'wait=25', 'x-request-id': 'abc-1' },
    body: '{"scope":"identity.name","agent_name":"x"}',
  })
  t.equal(response.headers['x-request-id'], 'abc-1')
  t.notOk(response.headers['set-cookie'], 'only headers that an agent needs come back')
  t.notOk(
    Object.keys(response.headers).some((name) => name.startsWith('access-control')),
    'no CORS',
  )
  t.equal((await call(proxy.url, '/address/solana')).json.path, '/address/solana')
})

t.test('capabilities are the vault’s, in the proxy’s name and with the routes it forwards', async (t) => {
  const document = {
    name: 'tollgate-vault',
    version: '0.2.0',
    mode: 'local',
    local_url: 'http://127.0.0.1:8420',
    chains: ['solana'],
    routes: [
      { method: 'GET', path: '/address/:chain', operation: 'get_address', description: '' },
      { method: 'POST', path: '/v1/vault/unlock', operation: 'unlock', description: '' },
    ],
    notes: [],
  }
  const handle = async () => ({ status: 200, body: JSON.stringify(document) })
  const { proxy } = await pairedWorld(t, { handle })
  for (const path of ['/v1/capabilities', '/v1/capabilities?fresh=1'])
    t.strictSame((await call(proxy.url, path)).json, {
      ...document,
      name: 'tollgate-proxy',
      mode: 'proxy',
      local_url: proxy.url,
      routes: document.routes.slice(0, 1),
    })
  t.strictSame((await call(proxy.url, '/health?fresh=1')).json, { status: 'ok' })
})

t.test('what the host answers or throws arrives as it is', async (t) => {
  const responses = [
    async () => ({ status: 202, headers: { 'retry-after': '3' }, body: '{"status":"pending"}' }),
    async () => {
      throw new VaultError('VAULT_LOCKED', 'locked now', { retryAfterSeconds: 7 })
    },
    async () => {
      throw new Error('secret detail')
    },
    async () => ({ status: 42, body: '{}' }),
    async () => ({ status: 200, body: Buffer.alloc(600_000) }),
  ]
  const { proxy } = await pairedWorld(t, { handle: async () => responses.shift()!() })
  const ask = () => call(proxy.url, '/v1/vault/sign', { body: {} })
  const pending = await ask()
  t.strictSame([pending.status, pending.headers['retry-after'], pending.json.status], [202, '3', 'pending'])
  const locked = await ask()
  t.strictSame([locked.status, locked.headers['retry-after']], [423, '7'])
  t.match(locked.json.error, { code: 'VAULT_LOCKED', message: 'locked now', retryable: true, action: String })
  for (const what of ['an unexpected error', 'an impossible status', 'an answer that is too long']) {
    const failed = await ask()
    t.equal(failed.status, 500, what)
    t.equal(failed.json.error.code, 'INTERNAL_ERROR')
    t.notMatch(failed.text, /secret/)
  }
})

t.test('a body of 256 KiB goes through, one byte more does not', async (t) => {
  const { vault, proxy } = await pairedWorld(t, { handle: async ({ body }) => ({ status: 200, body }) })
  const body = JSON.stringify('x'.repeat(256 * 1024 - 2))
  const whole = await call(proxy.url, '/v1/vault/write', { body })
  t.equal(whole.text, body)
  const over = await call(proxy.url, '/v1/vault/write', { body: `${body} ` })
  t.strictSame([over.status, over.json.error.code], [413, 'PAYLOAD_TOO_LARGE'])
  const chunked = await call(proxy.url, '/v1/vault/write', {
    body: `${body} `,
    headers: { 'transfer-encoding': 'chunked' },
  })
  t.equal(chunked.status, 413)
  t.equal(vault.requests.length, 1)
})

t.test('routes of the owner, unknown routes and odd paths end at the proxy', async (t) => {
  const { vault, proxy } = await pairedWorld(t)
  const codeOf = async (path: string, method: string) =>
    (await call(proxy.url, path, method === 'POST' ? { body: {} } : { method })).json?.error.code
  for (const path of ['unlock', 'lock', 'agents', 'pairings', 'policies', 'approvals/x/approve'])
    t.equal(await codeOf(`/v1/vault/${path}`, 'POST'), 'OWNER_REQUIRED', path)
  for (const path of [
    '/',
    '/mcp',
    '/v1/vault',
    '/address/',
    '/address/a/b',
    '/address/..',
    '/address/%2e%2e',
    '//x',
  ])
    t.equal(await codeOf(path, 'GET'), 'NOT_FOUND', path)
  t.equal(await codeOf('/address/../v1/vault/unlock', 'GET'), 'NOT_FOUND')
  t.equal(await codeOf('/v1/vault/read;/unlock', 'POST'), 'NOT_FOUND')
  const other = await call(proxy.url, '/v1/vault/read')
  t.strictSame([other.status, other.headers.allow], [405, 'POST'])
  t.equal(await codeOf('/v1/capabilities', 'DELETE'), 'METHOD_NOT_ALLOWED')
  t.equal(vault.requests.length, 0, 'none of them reached the vault')
})

t.test('pages and rebound names are refused, programs are not', async (t) => {
  const { vault, proxy } = await pairedWorld(t)
  const refused: Record<string, string>[] = [
    { host: 'evil.example' },
    { host: `evil.example:${proxy.port}` },
    { host: '127.0.0.1' },
    { host: `127.0.0.1:${proxy.port + 1}` },
    { host: `127.0.0.1.evil.example:${proxy.port}` },
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: `https://127.0.0.1:${proxy.port}` },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example', 'content-type': 'text/plain' },
  ]
  for (const headers of refused) {
    const response = await call(proxy.url, '/v1/vault/read', { body: {}, headers })
    t.strictSame(
      [response.status, response.json.error.code],
      [403, 'ORIGIN_FORBIDDEN'],
      JSON.stringify(headers),
    )
  }
  const preflight = await call(proxy.url, '/v1/vault/read', {
    method: 'OPTIONS',
    headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' },
  })
  t.equal(preflight.status, 403)
  t.notOk(preflight.headers['access-control-allow-origin'])
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'application/jsonx',
  ]) {
    const response = await call(proxy.url, '/v1/vault/read', {
      body: '{}',
      headers: { 'content-type': type },
    })
    t.equal(response.json.error.code, 'UNSUPPORTED_MEDIA_TYPE', type)
  }
  t.equal(vault.requests.length, 0)
  const accepted: Record<string, string>[] = [
    { host: `localhost:${proxy.port}` },
    { host: `LOCALHOST:${proxy.port}` },
    { origin: proxy.url, 'sec-fetch-site': 'same-origin' },
    { 'content-type': 'Application/JSON; charset=utf-8' },
  ]
  for (const headers of accepted)
    t.equal(
      (await call(proxy.url, '/v1/vault/read', { body: {}, headers })).status,
      200,
      JSON.stringify(headers),
    )
})

t.test('with a token of its own the proxy serves nobody who does not show it', async (t) => {
  const { proxy, options, vault } = await pairedWorld(t, {}, { requireToken: true })
  const token = proxy.newToken!
  t.match(token, /^vat_/)
  const statusWith = async (authorization?: string) =>
    (await call(proxy.url, '/v1/vault/scopes', authorization ? { headers: { authorization } } : {})).status
  t.equal(await statusWith(), 401)
  t.equal(await statusWith('Bearer vat_wrong'), 401)
  for (const path of ['/health', '/v1/capabilities']) {
    t.equal((await call(proxy.url, path)).status, 200, `${path} is open`)
    const head = await call(proxy.url, path, { method: 'HEAD' })
    t.strictSame([head.status, head.text], [200, ''])
  }
  t.equal((await call(proxy.url, '/health', { headers: { origin: 'https://evil.example' } })).status, 403)
  t.equal(await statusWith(`Basic ${token}`), 401)
  t.equal(await statusWith(`Bearer ${token}`), 200)
  t.notOk(
    vault.requests.some(({ headers }) => 'authorization' in headers),
    'it does not leave this machine',
  )
  await proxy.close()
  const again = await proxyFor(t, { ...options, pair: undefined })
  t.equal(again.newToken, undefined, 'it is told once')
  const response = await call(again.url, '/v1/vault/scopes', {
    headers: { authorization: `Bearer ${token}` },
  })
  t.equal(response.status, 200)
  const files = readdirSync(options.home).map((name) => readFileSync(join(options.home, name), 'utf8'))
  t.notOk(
    files.some((text) => text.includes(token)),
    'and not kept',
  )
  await t.rejects(startProxy({ ...options, host: '0.0.0.0', requireToken: false }), /--require-token/)
})

t.test('who has no token takes no place of those who have one', async (t) => {
  const never = gate()
  const { proxy } = await pairedWorld(
    t,
    {
      async handle({ path }) {
        if (path === '/v1/capabilities') await never.opened
        return { status: 200 }
      },
    },
    { requireToken: true },
  )
  const strangers = Array.from({ length: 70 }, () => call(proxy.url, '/v1/capabilities'))
  const first = await Promise.race(strangers)
  t.strictSame([first.status, first.headers['retry-after']], [429, '1'])
  const headers = { authorization: `Bearer ${proxy.newToken}` }
  t.equal((await call(proxy.url, '/v1/vault/scopes', { headers })).status, 200)
  never.open()
  await Promise.all(strangers)
})

t.test('the key is kept for its owner only, the token not at all; later runs need none', async (t) => {
  const { proxy, options, offer, vault } = await pairedWorld(t)
  await proxy.close()
  t.equal(statSync(options.home).mode & 0o777, 0o700)
  const names = readdirSync(options.home)
  t.equal(names.length, 1)
  const file = join(options.home, names[0]!)
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.notOk(readFileSync(file, 'utf8').includes(offer.token.slice(30)))
  t.notOk([...vault.store.texts.values()].join().includes(offer.token.slice(4)), 'nor at the vault')
  for (const pair of [undefined, offer.token]) {
    const later = await proxyFor(t, { ...options, pair })
    t.equal((await call(later.url, '/address/solana')).status, 200)
    await later.close()
  }
  t.equal(vault.questions.length, 1, 'the owner was asked once')
  await t.rejects(
    startProxy({ ...options, hpkeKey: Buffer.alloc(32, 1).toString('base64') }),
    /got another key/,
  )
})

t.test('several vaults and agents at once: each hears its own vault only', async (t) => {
  const relay = await relayFor(t)
  const worlds = await Promise.all(
    [0, 1, 2].map(async () => {
      const vault = await vaultFor(t, relay)
      const proxies = await Promise.all(
        ['a', 'b', 'c'].map(async (service) => {
          const offer = await offerFor(vault, service)
          return { offer, proxy: await proxyFor(t, proxyOptions(t, vault, relay, offer)) }
        }),
      )
      return { vault, proxies }
    }),
  )
  const rounds = Array.from({ length: 8 }, (_, i) => i)
  await Promise.all(
    worlds.flatMap(({ vault, proxies }) =>
      proxies.flatMap(({ offer, proxy }) =>
        rounds.map(async (round) => {
          const { json } = await call(proxy.url, '/v1/vault/preview', { body: { round } })
          t.match(json, {
            vault: vault.identity.vaultId,
            agent: offer.pairing.agentId,
            body: JSON.stringify({ round }),
          })
        }),
      ),
    ),
  )
  for (const { vault } of worlds) t.equal(vault.requests.length, 24)
})

t.test('an answer that waits for the owner does not hold up the others', async (t) => {
  const approval = gate()
  const { proxy, vault } = await pairedWorld(t, {
    async handle(request) {
      if (request.path === '/v1/vault/sign') await approval.opened
      return echo('v')(request)
    },
  })
  const signing = call(proxy.url, '/v1/vault/sign', { body: {} })
  await until(() => vault.requests.length === 1)
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200, 'while the first waits')
  approval.open()
  t.equal((await signing).status, 200)
})

t.test('a call waits as long as it may ask the vault to: two minutes', async (t) => {
  const [arrived, approval] = [gate(), gate()]
  const { proxy } = await pairedWorld(t, {
    async handle() {
      arrived.open()
      await approval.opened
      return { status: 200 }
    },
  })
  t.teardown(() => mock.timers.reset())
  mock.timers.enable({ apis: ['setTimeout'] })
  const signing = call(proxy.url, '/v1/vault/sign', { body: {}, headers: { prefer: 'wait=120' } })
  await arrived.opened
  mock.timers.tick(125_000)
  approval.open()
  t.equal((await signing).status, 200)
})

t.test('one agent can not occupy the vault: more than 32 calls at once are told to wait', async (t) => {
  const approval = gate()
  const { proxy, vault } = await pairedWorld(t, {
    async handle() {
      await approval.opened
      return { status: 200 }
    },
  })
  const calls = Array.from({ length: 33 }, () => call(proxy.url, '/v1/vault/sign', { body: {} }))
  const first = await Promise.race(calls)
  t.strictSame([first.status, first.headers['retry-after']], [429, '1'])
  approval.open()
  const statuses = (await Promise.all(calls)).map(({ status }) => status)
  t.equal(statuses.filter((status) => status === 200).length, 32)
  t.equal(vault.requests.length, 32)
})

t.test('a clock that is an hour off on the remote machine does no harm', async (t) => {
  for (const offsetMs of [-3_600_000, 3_600_000]) {
    const { proxy } = await pairedWorld(t, {}, { clock: { now: () => Date.now() + offsetMs } })
    t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
  }
})
