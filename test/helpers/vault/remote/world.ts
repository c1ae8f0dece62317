import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Test } from 'tap'
import { remoteRoutes } from '../../../../vault/operations/table.ts'
import { type ProxyOptions, type RunningProxy, startProxy } from '../../../../vault/proxy/startProxy.ts'
import { type Relay, type RelayOptions, startRelay } from '../../../../vault/relay/startRelay.ts'
import {
  type Connector,
  type ConnectorOptions,
  type PairingOffer,
  startConnector,
} from '../../../../vault/remote/connector.ts'
import { createVaultIdentity, hpkeKeyOf, type VaultIdentity } from '../../../../vault/remote/identity.ts'
import type { PairingRequest } from '../../../../vault/remote/pairingQueue.ts'
import type { RemoteRequest, RemoteResponse } from '../../../../vault/remote/remoteRequest.ts'
import { call } from './call.ts'
import { memoryStore } from './memoryStore.ts'
import { type TappedRelay, tapRelay } from './tap.ts'

/** Comes back at once: tests do not wait for what they cause themselves. */
export const eager = { minMs: 1, maxMs: 8 }

/** Starts a relay that ends with the test. */
export async function relayFor(t: Test, options: Partial<RelayOptions> = {}): Promise<Relay> {
  const relay = await startRelay({ host: '127.0.0.1', port: 0, ...options })
  t.teardown(() => relay.close())
  return relay
}

export interface TestVault {
  connector: Connector
  identity: VaultIdentity
  readonly store: ReturnType<typeof memoryStore>
  /** Every call that the host was given, in order. */
  readonly requests: RemoteRequest[]
  /** What the owner was asked. */
  readonly questions: PairingRequest[]
  /** Ends the connector and starts another over the same store: another life of the vault. */
  restart(change?: Partial<ConnectorOptions>): Promise<void>
}

/** What the fake host answers: itself and what it was asked. */
export const echo =
  (vaultId: string) =>
  async (request: RemoteRequest): Promise<RemoteResponse> => ({
    status: 200,
    headers: { 'content-type': 'application/json', 'set-cookie': 'never=1' },
    body: JSON.stringify({
      vault: vaultId,
      agent: request.agentId,
      method: request.method,
      path: request.path,
      headers: request.headers,
      body: request.body.toString('utf8'),
    }),
  })

/** Starts a vault's connector with a fake host; the owner confirms everything. */
export async function vaultFor(
  t: Test,
  relay: { readonly url: string },
  change: Partial<ConnectorOptions> = {},
): Promise<TestVault> {
  const vaultId = `vault-${randomUUID().slice(0, 8)}`
  const { identity = createVaultIdentity(vaultId, 1) } = change
  const store = memoryStore()
  const requests: RemoteRequest[] = []
  const questions: PairingRequest[] = []
  const start = (more: Partial<ConnectorOptions>): Promise<Connector> => {
    const { handle = echo(identity.vaultId), confirm = async () => true } = { ...change, ...more }
    return startConnector({
      relay: relay.url,
      routes: remoteRoutes,
      store,
      backoff: eager,
      identity: vault.identity,
      ...change,
      ...more,
      handle(request) {
        requests.push(request)
        return handle(request)
      },
      confirm(question) {
        questions.push(question)
        return confirm(question)
      },
    })
  }
  const vault: TestVault = {
    connector: undefined as never,
    identity,
    store,
    requests,
    questions,
    async restart(more = {}) {
      await vault.connector.close()
      vault.connector = await start(more)
    },
  }
  vault.connector = await start({})
  t.teardown(() => vault.connector.close())
  return vault
}

export const offerFor = (vault: TestVault, serviceId = 'bot'): Promise<PairingOffer> =>
  vault.connector.createPairing({ serviceId, ttlMs: 600_000 })

/** What the proxy's command line says, and a folder of its own. */
export const proxyOptions = (
  t: Test,
  vault: TestVault,
  relay: { readonly url: string },
  offer: PairingOffer,
): ProxyOptions & { readonly home: string } => ({
  pair: offer.token,
  serviceId: offer.pairing.serviceId,
  vaultId: vault.identity.vaultId,
  hpkeKey: hpkeKeyOf(vault.identity),
  relay: relay.url,
  routes: remoteRoutes,
  port: 0,
  home: join(folderOf(t), randomUUID()),
  backoff: eager,
})

const folders = new WeakMap<Test, string>()

/** One folder a test; `testdir` empties it each time. */
function folderOf(t: Test): string {
  const folder = folders.get(t) ?? t.testdir({})
  folders.set(t, folder)
  return folder
}

export async function proxyFor(t: Test, options: Omit<ProxyOptions, 'routes'>): Promise<RunningProxy> {
  const proxy = await startProxy({ routes: remoteRoutes, ...options })
  t.teardown(() => proxy.close())
  return proxy
}

/** A relay, a vault, and a proxy that is paired with it. */
export async function pairedWorld(
  t: Test,
  change: Partial<ConnectorOptions> = {},
  proxyChange: Partial<ProxyOptions> = {},
): Promise<{
  relay: Relay
  vault: TestVault
  proxy: RunningProxy
  offer: PairingOffer
  options: ReturnType<typeof proxyOptions>
}> {
  const relay = await relayFor(t)
  const vault = await vaultFor(t, relay, change)
  const offer = await offerFor(vault)
  const options = { ...proxyOptions(t, vault, relay, offer), ...proxyChange }
  const proxy = await proxyFor(t, options)
  return { relay, vault, proxy, offer, options: options as ReturnType<typeof proxyOptions> }
}

/** A proxy that is paired and greeted over a relay that can be made to delay and swallow frames. */
export async function tappedWorld(
  t: Test,
  change: Partial<ConnectorOptions> = {},
  proxyChange: Partial<ProxyOptions> = {},
): Promise<{ relay: Relay; tapped: TappedRelay; vault: TestVault; proxy: RunningProxy }> {
  const relay = await relayFor(t)
  const tapped = await tapRelay(t, relay)
  const vault = await vaultFor(t, tapped, change)
  const options = proxyOptions(t, vault, tapped, await offerFor(vault))
  const proxy = await proxyFor(t, { ...options, ...proxyChange })
  await call(proxy.url, '/v1/vault/scopes')
  vault.requests.length = 0
  return { relay, tapped, vault, proxy }
}

/** A promise and its end, for hosts that answer when the test says so. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => (open = resolve))
  return { opened, open: () => open() }
}
