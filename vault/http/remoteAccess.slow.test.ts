import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { silentLog } from '../../core/ports/log.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { call } from '../../test/helpers/vault/remote/call.ts'
import { eager, relayFor } from '../../test/helpers/vault/remote/world.ts'
import { mnemonic, password, quickHasher } from '../../test/helpers/vault/startVault.ts'
import { signBody } from '../../test/helpers/vault/transfers.ts'
import { fromStored } from '../channel/suite.ts'
import { createAssetTable } from '../effects/assets.ts'
import { createVaultApi, type VaultApi } from '../host/createVaultApi.ts'
import { capabilitiesOf, operations, remoteRoutes } from '../operations/table.ts'
import chainEvm from '../plugins/chain-evm/index.ts'
import { systemVaultClock } from '../ports/clock.ts'
import type { PairingOffer } from '../ports/pairings.ts'
import type { Vault } from '../ports/vault.ts'
import { startAgentEnd } from '../proxy/agentEnd.ts'
import { openProxyState } from '../proxy/proxyState.ts'
import { type ProxyOptions, type RunningProxy, startProxy } from '../proxy/startProxy.ts'
import { createVaultClient, defaultProxyTimes } from '../proxy/vaultClient.ts'
import type { Relay } from '../relay/startRelay.ts'
import { relayUrl } from '../remote/relayLink.ts'
import { createVault } from '../storage/createVault.ts'
import { createRemoteAccess, type RemoteAccess } from './remoteAccess.ts'

const owner = { caller: { kind: 'owner', via: 'socket' }, requestId: 'test' } as const

interface World {
  readonly relay: Relay
  readonly vault: Vault
  readonly api: VaultApi
  readonly remote: RemoteAccess
  offer(serviceId?: string): Promise<PairingOffer>
  /** The values of an offer's command, and a separate folder. */
  optionsOf(offer: PairingOffer): ProxyOptions & { readonly home: string }
  /** The owner's steps: the same four words on both sides, then the decision. */
  pair(offer: PairingOffer, isSame?: boolean, options?: ProxyOptions): Promise<RunningProxy>
}

/** A vault with its host, a relay, and the connection between them; time is real, because messages expire by it. */
async function startWorld(t: Test): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'remote-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const clock = systemVaultClock
  const relay = await relayFor(t)
  const kdf = { memoryKiB: 65_536, passes: 3, lanes: 1 }
  const home = join(folder, 'vault')
  const { vault } = await createVault({ home, clock, password, mnemonic, kdf, hasher: quickHasher })
  const remote = createRemoteAccess({ vault, relay: relay.url, clock, log: silentLog })
  const api = await createVaultApi({
    vault,
    chains: [chainEvm],
    enabled: ['base'],
    assets: createAssetTable(),
    egress: () => ({ request: () => Promise.reject(new Error('no way out in this test')) }),
    rpc: () => undefined,
    clock,
    log: silentLog,
    localUrl: () => 'http://127.0.0.1:8420',
    pairings: remote.pairings,
  })
  await remote.attach(api)
  t.teardown(async () => {
    await remote.close()
    await api.close()
  })
  await api.agents.add({ name: 'far', scopes: ['identity.name', 'wallet.base'] }, owner)
  await api.request('vault_write', { scope: 'identity.name', value: 'Ada' }, owner)

  const world: World = {
    relay,
    vault,
    api,
    remote,
    offer: (serviceId = 'bot') => api.pairings.create({ service_id: serviceId, agent: 'far' }, owner),
    optionsOf(offer) {
      const argumentOf = (flag: string) => new RegExp(`${flag} '?([^ ']+)`).exec(offer.command)![1]!
      return {
        pair: offer.token,
        serviceId: argumentOf('--service-id'),
        vaultId: argumentOf('--vault'),
        hpkeKey: argumentOf('--hpke-key'),
        routes: remoteRoutes,
        relay: relay.url,
        port: 0,
        home: join(folder, randomUUID()),
        backoff: eager,
      }
    },
    async pair(offer, isSame = true, options = world.optionsOf(offer)) {
      const theirs = Promise.withResolvers<string>()
      const starting = startProxy({ ...options, onPhrase: theirs.resolve })
      starting.catch(() => {})
      const ours = () => api.pairings.list(owner).pairings.find(({ id }) => id === offer.id)?.phrase ?? null
      await until(() => ours() !== null, 'the four words')
      t.equal(ours(), await theirs.promise, 'both sides show the same words')
      await api.pairings.confirm(offer.id, isSame, owner)
      const proxy = await starting
      t.teardown(() => proxy.close())
      return proxy
    },
  }
  return world
}

const stateOf = ({ api }: World, { id }: PairingOffer) =>
  api.pairings.list(owner).pairings.find((pairing) => pairing.id === id)?.state

const read = (proxy: RunningProxy) =>
  call(proxy.url, '/v1/vault/read', { body: { scope: 'identity.name', agent_name: 'far' } })

t.test(
  'an agent elsewhere is paired by the same four words, and is the agent it was paired as',
  async (t) => {
    const world = await startWorld(t)
    const offer = await world.offer()
    t.equal(stateOf(world, offer), 'offered')
    const proxy = await world.pair(offer)
    t.equal(stateOf(world, offer), 'paired')
    const response = await read(proxy)
    t.match([response.status, response.json], [200, { value: 'Ada' }])
    const denied = await call(proxy.url, '/v1/vault/read', { body: { scope: 'identity.email' } })
    t.match([denied.status, denied.json.error.code], [403, 'SCOPE_DENIED'])
    const { events } = await world.api.activity({ limit: 50 }, owner)
    const notified = events.filter(({ action }) => action === 'PAIR').map((event) => JSON.stringify(event))
    t.match(notified, [/confirmed/, /offered to far/])
    t.ok(events.some(({ agent, action }) => agent === 'far' && action === 'READ'))
  },
)

t.test('of an agent elsewhere, too, no byte is replaced and no Idempotency-Key is dropped', async (t) => {
  const world = await startWorld(t)
  const proxy = await world.pair(await world.offer())
  const body = { scope: 'identity.name', purpose: 'caf\u00e9' }
  const refused = { status: 400, json: { error: { code: 'VALIDATION_ERROR' } } }
  const latin1 = Buffer.from(JSON.stringify(body), 'latin1')
  t.match(await call(proxy.url, '/v1/vault/read', { body: latin1 }), refused)
  const headers = { 'idempotency-key': 'caf\u00e9' }
  t.match(await call(proxy.url, '/v1/vault/read', { body, headers }), refused)
  t.equal((await call(proxy.url, '/v1/vault/read', { body })).status, 200)
})

t.test('words that differ pair nothing', async (t) => {
  const world = await startWorld(t)
  const offer = await world.offer()
  await t.rejects(world.pair(offer, false), { code: 'APPROVAL_DENIED' })
  t.not(stateOf(world, offer), 'paired')
  await t.rejects(
    world.api.pairings.confirm(offer.id, true, owner),
    { code: 'NOT_FOUND' },
    'nobody asks any more',
  )
})

t.test('a pairing that is revoked is worth nothing, and the others hold', async (t) => {
  const world = await startWorld(t)
  const offer = await world.offer()
  const proxy = await world.pair(offer)
  const other = await world.pair(await world.offer('other'))
  t.equal((await read(proxy)).status, 200)
  await world.api.pairings.revoke(offer.id, owner)
  t.equal(stateOf(world, offer), 'revoked')
  const { status, json } = await read(proxy)
  t.match([status, json.error.code], [401, 'UNAUTHORIZED'])
  t.equal((await read(other)).status, 200, 'the other goes on')
  await t.rejects(world.api.pairings.revoke('none', owner), { code: 'NOT_FOUND' })
})

t.test('a revoked agent is refused, whatever its pairing says', async (t) => {
  const world = await startWorld(t)
  const offer = await world.offer()
  const proxy = await world.pair(offer)
  t.equal((await read(proxy)).status, 200)
  await world.api.agents.revoke('far', owner)
  const refused = await read(proxy)
  t.match([refused.status, refused.json.error.code], [401, 'UNAUTHORIZED'])
  await t.rejects(world.offer('again'), { code: 'NOT_FOUND' }, 'and gets no other pairing')
})

t.test('a lock closes the way, an unlock opens it again, and the pairing holds', async (t) => {
  const world = await startWorld(t)
  const proxy = await world.pair(await world.offer())
  t.equal((await read(proxy)).status, 200)
  await world.api.lock(owner)
  await until(() => proxy.reach !== 'vault', 'the vault to be away')
  const away = await read(proxy)
  t.match([away.status, away.json.error.code], [503, 'VAULT_UNREACHABLE'])
  t.throws(() => world.api.pairings.list(owner), { code: 'VAULT_LOCKED' })
  // Consecutive locks and unlocks run one at a time.
  await world.api.unlock(password, owner)
  await world.api.lock(owner)
  await world.api.unlock(password, owner)
  await until(async () => (await read(proxy)).status === 200, 'the vault to be back')
  t.equal((await read(proxy)).json.value, 'Ada')
})

t.test('a lock or a stop while the words are compared is no refusal: they are asked for again', async (t) => {
  const world = await startWorld(t)
  const offer = await world.offer()
  const theirs = Promise.withResolvers<string>()
  const starting = startProxy({ ...world.optionsOf(offer), onPhrase: theirs.resolve })
  starting.catch(() => {})
  const ours = () => {
    try {
      return world.api.pairings.list(owner).pairings[0]?.phrase ?? null
    } catch {
      return null // the way is not up again yet
    }
  }
  await until(() => ours() !== null, 'the four words')
  await world.api.lock(owner)
  await world.api.unlock(password, owner)
  await until(() => ours() !== null, 'the words after a lock')
  await world.remote.close()
  await world.remote.attach(world.api)
  await until(() => ours() !== null, 'the same words again')
  t.equal(ours(), await theirs.promise)
  await world.api.pairings.confirm(offer.id, true, owner)
  const proxy = await starting
  t.teardown(() => proxy.close())
  t.equal((await read(proxy)).status, 200)
})

t.test('a question that is asked over the relay waits for the owner, and its answer goes back', async (t) => {
  const world = await startWorld(t)
  const proxy = await world.pair(await world.offer())
  const headers = { prefer: 'wait=60' }
  const waiting = call(proxy.url, '/v1/vault/sign', { body: signBody('3'), headers })
  await until(() => world.api.approvalQueue.open().length === 1, 'the question')
  const [approval] = world.api.approvalQueue.open()
  await world.api.approvals.approve(approval!.id, approval!.decisionHash, owner)
  const { status, json } = await waiting
  t.equal(status, 200)
  t.match(json.signed_tx, /^0x/)
})

t.test(
  'a pairing that is revoked under a call that waits ends it, and an answer signs nothing any more',
  async (t) => {
    const world = await startWorld(t)
    const offer = await world.offer()
    const proxy = await world.pair(offer)
    const headers = { prefer: 'wait=120' }
    const waiting = call(proxy.url, '/v1/vault/sign', { body: signBody('3'), headers })
    await until(() => world.api.approvalQueue.open().length === 1, 'the question')
    await world.api.pairings.revoke(offer.id, owner)
    t.equal((await waiting).status, 401)
    const [approval] = world.api.approvalQueue.open()
    await world.api.approvals.approve(approval!.id, approval!.decisionHash, owner)
    const { status } = world.api.approvals.get(approval!.id, owner)
    t.equal(status, 'approved', 'not consumed')
  },
)

t.test('a lock under a call that waits is heard by who waits', async (t) => {
  const world = await startWorld(t)
  const proxy = await world.pair(await world.offer())
  const headers = { prefer: 'wait=120' }
  const waiting = call(proxy.url, '/v1/vault/sign', { body: signBody('3'), headers })
  await until(() => world.api.approvalQueue.open().length === 1, 'the question')
  await world.api.lock(owner)
  t.match((await waiting).json.error, { code: 'VAULT_LOCKED', retryable: true })
})

t.test('the vault’s key is changed, and proxies that are paired follow it by themselves', async (t) => {
  const world = await startWorld(t)
  const [offer, unused] = [await world.offer(), await world.offer('later')]
  const options = world.optionsOf(offer)
  const proxy = await world.pair(offer, true, options)
  t.equal((await read(proxy)).status, 200)
  t.strictSame(await world.api.pairings.rotateKey(owner), { generation: 2 })
  t.equal((await read(proxy)).status, 200, 'a session that is open goes on')
  t.not(world.optionsOf(await world.offer('new')).hpkeKey, options.hpkeKey)
  await proxy.close()

  const again = await startProxy({ ...options, pair: undefined })
  t.equal((await read(again)).status, 200)
  await again.close()
  const state = await openProxyState(options.home, options.vaultId, options.serviceId).read()
  t.match(state, { generation: 2, givenKey: options.hpkeKey })
  t.not(state!.hpkeKey, options.hpkeKey)

  await world.pair(unused)
  // Until the first key is dropped; a restarted vault has the same ones.
  const more = await Promise.all([1, 2, 3, 4].map(() => world.api.pairings.rotateKey(owner)))
  t.strictSame(
    more.map(({ generation }) => generation),
    [3, 4, 5, 6],
  )
  await world.api.lock(owner)
  await world.api.unlock(password, owner)
  const last = await startProxy({ ...options, pair: undefined })
  t.teardown(() => last.close())
  await until(async () => (await read(last)).status === 200, 'the proxy that followed reaches its vault')
  const { events } = await world.api.activity({ limit: 100 }, owner)
  t.equal(
    events.filter((event) => /remote agents rotated: generation \d/.test(JSON.stringify(event))).length,
    5,
  )
})

t.test('what is the owner’s is not there over the relay, whatever program speaks', async (t) => {
  const world = await startWorld(t)
  const offer = await world.offer()
  const options = world.optionsOf(offer)
  const starting = startProxy(options)
  await until(() => world.api.pairings.list(owner).pairings[0]?.phrase !== null, 'the four words')
  await world.api.pairings.confirm(offer.id, true, owner)
  await (await starting).close()

  // The proxy itself refuses these; another program with the proxy's keys does not.
  const { vaultId, serviceId } = options
  const file = openProxyState(options.home, vaultId, serviceId)
  const state = (await file.read())!
  const link = { url: relayUrl(world.relay.url), log: silentLog, backoff: eager }
  const route = Buffer.from(state.route, 'base64')
  const end = startAgentEnd(link, route, fromStored(state.staticKey), systemVaultClock, () => {})
  t.teardown(() => end.close())
  const client = createVaultClient(end, state, file.write, systemVaultClock, defaultProxyTimes)
  const send = async (method: string, path: string, body: object = {}) => {
    const bytes = Buffer.from(method === 'GET' ? '' : JSON.stringify(body))
    const headers = { 'content-type': 'application/json', 'x-request-id': 'not "plain" at all' }
    const response = await client.call({ method: method as 'POST', path, headers, body: bytes })
    const id = (response.head['headers'] as Record<string, string>)['x-request-id']
    t.notOk(id?.includes('"'), 'it stands in the log')
    return { status: response.head['status'], body: JSON.parse(Buffer.from(response.body).toString('utf8')) }
  }
  t.equal(
    (await send('POST', '/v1/vault/read', { scope: 'identity.name' })).status,
    200,
    'it speaks as the proxy',
  )
  for (const [method, path, body] of [
    ['POST', '/v1/vault/unlock', { password }],
    ['POST', '/v1/vault/lock'],
    ['GET', '/v1/vault/status'],
    ['GET', '/v1/vault/agents'],
    ['POST', '/v1/vault/agents', { name: 'mine', scopes: ['wallet.*'] }],
    ['PUT', '/v1/vault/policies/far', { assets: [] }],
    ['POST', '/v1/vault/pairings', { service_id: 'x', agent: 'far' }],
    ['GET', '/v1/vault/activity/verify'],
    ['POST', '/v1/vault/approvals/apr_x/approve', { decision_hash: 'x' }],
    ['POST', '/v1/vault/approvals/apr_x/deny'],
    ['POST', '/v1/vault/owner/sessions'],
    ['POST', '/v1/vault/owner/keys/export', { password, id: 'evm:0' }],
    ['POST', '/v1/vault/owner/backup', { file: '/tmp/x' }],
    ['POST', '/mcp'],
  ] as const) {
    const { status, body: response } = await send(method, path, body)
    t.ok([403, 404, 405].includes(Number(status)), `${method} ${path}: ${status}`)
    t.type(response.error?.code, 'string')
  }
  t.equal(world.vault.state.locked, false)

  const { body: capabilities } = await send('GET', '/v1/capabilities')
  for (const { method, path } of capabilities.routes) {
    const { status } = await send(method, path.replace(':chain', 'base').replace(':id', 'apr_x'))
    const isThere = status !== 405 && (status !== 404 || path.includes(':id'))
    t.ok(isThere, `${method} ${path} is offered, and is there: ${status}`)
  }
  const paths = capabilities.routes.map(({ path }: { path: string }) => path)
  t.notOk(paths.includes('/v1/vault/lock'))
  t.ok(
    capabilitiesOf(world.api.about(), 'direct', operations).routes.some(
      ({ path }) => path === '/v1/vault/lock',
    ),
    'on this machine it is',
  )
})
