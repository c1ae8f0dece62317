import { cp } from 'node:fs/promises'
import t from 'tap'
import { until } from '../../test/helpers/rawHttp.ts'
import { call } from '../../test/helpers/vault/remote/call.ts'
import {
  gate,
  offerFor,
  pairedWorld,
  proxyFor,
  proxyOptions,
  relayFor,
  vaultFor,
} from '../../test/helpers/vault/remote/world.ts'
import { createKeyPair } from '../channel/suite.ts'
import { VaultError } from '../errors/error.ts'
import { startProxy } from '../proxy/startProxy.ts'
import { createVaultIdentity, hpkeKeyOf, rotateVaultIdentity } from './identity.ts'

t.test('a token pairs one proxy; the second hears that it was used', async (t) => {
  const { relay, vault, proxy, offer } = await pairedWorld(t)
  await t.rejects(startProxy(proxyOptions(t, vault, relay, offer)), { code: 'PAIR_USED', status: 409 })
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200, 'the first goes on')
  t.equal(vault.questions.length, 1)
})

t.test('of many proxies with one token at once, one is paired', async (t) => {
  const relay = await relayFor(t)
  const vault = await vaultFor(t, relay)
  const offer = await offerFor(vault)
  const tries = await Promise.allSettled(
    Array.from({ length: 6 }, () => startProxy(proxyOptions(t, vault, relay, offer))),
  )
  const started = tries.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  t.teardown(() => Promise.all(started.map((proxy) => proxy.close())))
  t.equal(started.length, 1)
  const codes = tries.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []))
  t.strictSame(codes, Array(5).fill('PAIR_USED'))
})

t.test('a token that is too old says so', async (t) => {
  const relay = await relayFor(t)
  const clock = { now: () => Date.now() }
  const vault = await vaultFor(t, relay, { clock })
  const offer = await offerFor(vault)
  clock.now = () => offer.pairing.expiresAtMs
  await t.rejects(startProxy(proxyOptions(t, vault, relay, offer)), { code: 'PAIR_EXPIRED', status: 410 })
  t.equal(vault.connector.pairings()[0]!.state, 'expired')
  t.equal(vault.questions.length, 0)
})

t.test('many offers that nobody used are in nobody’s way', async (t) => {
  const clock = { now: () => 0 }
  const relay = await relayFor(t)
  const vault = await vaultFor(t, relay, { clock })
  for (let n = 0; n < 200; n++) {
    clock.now = () => n
    await offerFor(vault, `bot-${n}`)
  }
  await t.rejects(offerFor(vault), { code: 'VALIDATION_ERROR', message: /Revoke some/ })
  await vault.connector.revoke(vault.connector.pairings()[7]!.id)
  await offerFor(vault, 'after-revoke')
  clock.now = () => 700_000
  await offerFor(vault, 'after-time')
  const left = vault.connector.pairings().map(({ serviceId }) => serviceId)
  t.equal(left.length, 200)
  for (const gone of ['bot-7', 'bot-0']) t.notOk(left.includes(gone), gone)
})

t.test('a wrong key, vault, service or token pairs nothing', async (t) => {
  const relay = await relayFor(t)
  const vault = await vaultFor(t, relay)
  const offer = await offerFor(vault)
  const options = proxyOptions(t, vault, relay, offer)
  const wrong = { hpkeKey: createKeyPair('X25519').publicKey.toString('base64') }
  await t.rejects(startProxy({ ...options, ...wrong }), { code: 'VALIDATION_ERROR', message: /--hpke-key/ })
  for (const bad of [
    { pair: 'vpt_x' },
    { pair: `${offer.token}A` },
    { pair: undefined },
    { hpkeKey: 'AAAA' },
  ])
    await t.rejects(startProxy({ ...options, ...bad, home: `${options.home}-2` }), /expected/)
  t.strictSame(
    vault.connector.pairings().map(({ state }) => state),
    ['offered'],
    'the token is still good',
  )
  await proxyFor(t, { ...options, home: `${options.home}-3` })
})

t.test('a message of the owner’s no ends the pairing', async (t) => {
  const relay = await relayFor(t)
  const vault = await vaultFor(t, relay, { confirm: async () => false })
  const offer = await offerFor(vault)
  const options = proxyOptions(t, vault, relay, offer)
  await t.rejects(startProxy(options), { code: 'APPROVAL_DENIED' })
  await t.rejects(startProxy(options), { code: 'PAIR_USED' })
  t.strictSame(
    vault.connector.pairings().map(({ state }) => state),
    ['refused'],
  )
})

t.test('the owner may take time: the proxy asks again until there is a decision', async (t) => {
  const relay = await relayFor(t)
  const decision = gate()
  const states: string[] = []
  const vault = await vaultFor(t, relay, {
    confirmWaitMs: 1,
    async confirm() {
      await decision.opened
      return true
    },
    onChange: ({ state }) => void states.push(state),
  })
  const phrases: string[] = []
  const offer = await offerFor(vault)
  const starting = startProxy({
    ...proxyOptions(t, vault, relay, offer),
    onPhrase: (phrase) => phrases.push(phrase),
  })
  await until(() => vault.questions.length === 1 && phrases.length === 1)
  t.equal(vault.questions[0]!.phrase, phrases[0])
  decision.open()
  const proxy = await starting
  t.teardown(() => proxy.close())
  t.strictSame(states, ['claimed', 'paired'])
  t.equal(vault.questions.length, 1, 'and asked once')
})

t.test('an owner who never answers has answered no after 15 minutes', async (t) => {
  const relay = await relayFor(t)
  let aheadMs = 0
  const clock = { now: () => Date.now() + aheadMs }
  const vault = await vaultFor(t, relay, { clock, confirmWaitMs: 1, confirm: () => new Promise(() => {}) })
  const offer = await offerFor(vault)
  const starting = startProxy({ ...proxyOptions(t, vault, relay, offer), clock })
  await until(() => vault.questions.length === 1)
  aheadMs = 15 * 60_000
  await t.rejects(starting, { code: 'APPROVAL_DENIED' })
  t.ok(vault.questions[0]!.signal.aborted)
})

t.test('a host that fails to take note of a change, or to ask, does not lose the pairing', async (t) => {
  const relay = await relayFor(t)
  let requestCount = 0
  const vault = await vaultFor(t, relay, {
    onChange() {
      throw new Error('the log is full')
    },
    async confirm() {
      if (requestCount++ === 0) throw new Error('no window to ask in')
      return true
    },
  })
  const offer = await offerFor(vault)
  const proxy = await proxyFor(t, proxyOptions(t, vault, relay, offer))
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
  t.equal(requestCount, 2)
})

t.test('a vault that is locked while a token is used keeps the token good', async (t) => {
  const relay = await relayFor(t)
  const vault = await vaultFor(t, relay)
  const offer = await offerFor(vault)
  const { put } = vault.store
  vault.store.put = async () => {
    throw new VaultError('VAULT_LOCKED')
  }
  const options = proxyOptions(t, vault, relay, offer)
  await t.rejects(startProxy(options), { code: 'VAULT_LOCKED', status: 423 })
  vault.store.put = put
  const proxy = await proxyFor(t, options)
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
})

t.test('before the owner has confirmed, the proxy can do nothing', async (t) => {
  const relay = await relayFor(t)
  const vault = await vaultFor(t, relay, {
    confirm: ({ signal }) =>
      new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason))),
  })
  const offer = await offerFor(vault)
  const starting = startProxy(proxyOptions(t, vault, relay, offer))
  await until(() => vault.questions.length === 1)
  await vault.connector.revoke(offer.pairing.id)
  await t.rejects(starting, { code: 'UNAUTHORIZED', message: /revoked/ })
  t.ok(vault.questions[0]!.signal.aborted, 'the question is taken back')
  t.equal(vault.requests.length, 0)
})

t.test('a pairing goes on where either side was stopped, with the same words', async (t) => {
  const relay = await relayFor(t)
  const never = ({ signal }: { signal: AbortSignal }) =>
    new Promise<boolean>((_, no) => signal.addEventListener('abort', () => no(signal.reason)))
  const vault = await vaultFor(t, relay, { confirm: never })
  const offer = await offerFor(vault)
  const options = proxyOptions(t, vault, relay, offer)
  const phrases: string[] = []
  const onPhrase = (phrase: string) => void phrases.push(phrase)
  const starting = startProxy({ ...options, onPhrase })
  await until(() => vault.questions.length === 1)
  // The proxy's machine is copied at this moment: what a killed proxy leaves behind.
  const home = `${options.home}-killed`
  await cp(options.home, home, { recursive: true })
  await vault.restart({ confirm: async () => true })
  const [first, second] = await Promise.all([
    starting,
    startProxy({ ...options, home, onPhrase, pair: undefined }),
  ])
  t.teardown(() => Promise.all([first.close(), second.close()]))
  t.equal(new Set([...phrases, ...vault.questions.map(({ phrase }) => phrase)]).size, 1)
  const third = await proxyFor(t, { ...options, home, pair: offer.token })
  t.equal((await call(third.url, '/v1/vault/scopes')).status, 200)
})

t.test(
  'two proxies with one identity are both served, and neither can repeat the other’s calls',
  async (t) => {
    const { proxy, options, vault } = await pairedWorld(t)
    const home = `${options.home}-copy`
    await cp(options.home, home, { recursive: true })
    const copy = await proxyFor(t, { ...options, home, pair: undefined })
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        call((i % 2 ? proxy : copy).url, '/v1/vault/sign', { body: { i } }),
      ),
    )
    t.ok(
      responses.every(({ status }, i) => status === 200 && responses[i]!.json.body === JSON.stringify({ i })),
    )
    t.equal(vault.requests.length, 20)
  },
)

t.test('a revoked agent can do nothing, whatever it still has', async (t) => {
  const signing = gate()
  const { vault, proxy, offer, options } = await pairedWorld(t, {
    async handle({ path }) {
      if (path === '/v1/vault/sign') await signing.opened
      return { status: 200, body: '"signed"' }
    },
  })
  const underWay = call(proxy.url, '/v1/vault/sign', { body: {} })
  await until(() => vault.requests.length === 1)
  const view = await vault.connector.revoke(offer.pairing.id)
  t.equal(view.state, 'revoked')
  signing.open()
  const late = await underWay
  t.strictSame([late.status, late.json.error.code], [401, 'UNAUTHORIZED'], 'nothing of it leaves any more')
  const after = await call(proxy.url, '/v1/vault/scopes')
  t.strictSame([after.status, after.json.error.code], [401, 'UNAUTHORIZED'])
  await proxy.close()
  const again = await proxyFor(t, { ...options, pair: undefined })
  t.equal((await call(again.url, '/v1/vault/scopes')).status, 401, 'after its restart')
  await vault.restart()
  t.equal((await call(again.url, '/v1/vault/scopes')).status, 401, 'after the vault’s')
  t.equal(vault.requests.length, 1)
  await t.rejects(vault.connector.revoke('pair_none'), { code: 'NOT_FOUND' })
})

t.test('a new token replaces a pairing only when it is confirmed', async (t) => {
  const { relay, vault, proxy, options } = await pairedWorld(t)
  await proxy.close()
  const next = await offerFor(vault)
  await vault.restart({ confirm: async () => false })
  await t.rejects(startProxy({ ...options, pair: next.token }), { code: 'APPROVAL_DENIED' })
  const old = await proxyFor(t, { ...options, pair: undefined })
  t.equal((await call(old.url, '/v1/vault/scopes')).json.agent, vault.requests[0]!.agentId)
  await old.close()
  await vault.restart({ confirm: async () => true })
  const third = await offerFor(vault)
  const renewed = await proxyFor(t, { ...proxyOptions(t, vault, relay, third), home: options.home })
  t.equal((await call(renewed.url, '/v1/vault/scopes')).json.agent, third.pairing.agentId)
})

t.test(
  'a rotated key is followed because the vault signs it, and the old one is no longer needed',
  async (t) => {
    const { vault, proxy, options } = await pairedWorld(t)
    await call(proxy.url, '/v1/vault/scopes')
    await proxy.close()
    const given = hpkeKeyOf(vault.identity)
    vault.identity = rotateVaultIdentity(vault.identity, 2)
    vault.connector.useIdentity(vault.identity)
    const following = await proxyFor(t, { ...options, pair: undefined })
    t.equal((await call(following.url, '/v1/vault/scopes')).status, 200)
    await following.close()
    vault.identity = { ...vault.identity, keys: vault.identity.keys.slice(0, 1) }
    await vault.restart({ identity: vault.identity })
    for (const hpkeKey of [given, hpkeKeyOf(vault.identity)]) {
      const later = await proxyFor(t, { ...options, hpkeKey, pair: undefined })
      t.equal((await call(later.url, '/v1/vault/scopes')).status, 200)
      await later.close()
    }
  },
)

t.test('a vault that has the static key but not the signing key is not believed', async (t) => {
  const { vault, proxy } = await pairedWorld(t)
  const { signing } = createVaultIdentity('x', 1)
  await vault.restart({ identity: { ...vault.identity, signing } })
  const response = await call(proxy.url, '/v1/vault/scopes')
  t.strictSame([response.status, response.json.error.code], [503, 'VAULT_UNREACHABLE'])
  t.equal(vault.requests.length, 0)
})

t.test('a pairing that a restore suspended hears why, until the owner lets it go on', async (t) => {
  const { vault, proxy, relay, offer } = await pairedWorld(t)
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
  const asked = vault.requests.length
  const unused = await offerFor(vault)
  const suspend = async () => {
    for (const record of await vault.store.list()) await vault.store.put({ ...record, suspendedAtMs: 1 })
    await vault.restart()
  }
  await suspend()
  t.strictSame(
    vault.connector.pairings().map(({ state }) => state),
    ['suspended', 'suspended'],
  )
  const refused = await call(proxy.url, '/v1/vault/scopes')
  t.strictSame([refused.status, refused.json.error.code], [403, 'AGENT_SUSPENDED'])
  t.match(refused.json.error.action, 'pair resume')
  await t.rejects(
    startProxy(proxyOptions(t, vault, relay, unused)),
    { code: 'AGENT_SUSPENDED' },
    'nor does a token that may have been used since',
  )
  t.equal(vault.requests.length, asked, 'the host was not asked')
  t.match(await vault.connector.resume(offer.pairing.id), { state: 'paired' })
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
  await vault.restart()
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200, 'and it stays so')
  await t.rejects(vault.connector.resume('pair_none'), { code: 'NOT_FOUND' })
})

t.test('only sensible pairings are made', async (t) => {
  const relay = await relayFor(t)
  const { connector } = await vaultFor(t, relay)
  const good = { serviceId: 'a', ttlMs: 60_000 }
  for (const bad of [
    { serviceId: '' },
    { serviceId: '-x' },
    { serviceId: 'a b' },
    { serviceId: `a${'b'.repeat(64)}` },
    { serviceId: '$(rm)' },
    { ttlMs: 0 },
    { ttlMs: Number.NaN },
    { ttlMs: 8 * 24 * 3_600_000 },
  ])
    await t.rejects(
      connector.createPairing({ ...good, ...bad }),
      { code: 'VALIDATION_ERROR' },
      JSON.stringify(bad),
    )
  t.equal((await connector.createPairing({ ...good, agentId: 'agent_7' })).pairing.agentId, 'agent_7')
})
