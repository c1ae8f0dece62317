import { randomUUID } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { createReceiptSigner } from '../../adapters/chains/evm/receiptSigner.ts'
import { createWalletProofs } from '../../adapters/chains/wallets/walletProofs.ts'
import { createEgress } from '../../adapters/egress/egress.ts'
import { createJobChannel } from '../../adapters/memory/changes.ts'
import { createMemoryCounters } from '../../adapters/memory/counters.ts'
import { createResponseBuffer } from '../../adapters/memory/responseBuffer.ts'
import { createMetrics } from '../../adapters/metrics/metrics.ts'
import { createSealer } from '../../adapters/secrets/sealer.ts'
import { openSqlite } from '../../adapters/store/sqlite/openSqlite.ts'
import { parseConfig } from '../../core/config/loadConfig.ts'
import { type Asset, builtInAssets } from '../../core/domain/asset.ts'
import { type Link, linkDefaults, type Payout } from '../../core/domain/link.ts'
import { buildGeneration, type PluginEntry } from '../../core/kernel/generation.ts'
import { createPluginLoader } from '../../core/kernel/pluginLoader.ts'
import { PaymentEngine } from '../../core/payments/engine.ts'
import { type HeldLease, holdLease } from '../../core/payments/leases.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import type { GatewayPorts } from '../../core/plugin/ports.ts'
import type { Settler } from '../../core/ports/chains/settler.ts'
import { type Clock, machineClock, systemClock } from '../../core/ports/clock.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import type { Ledger } from '../../core/ports/store/ledger.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import type { Forwarder } from '../../gateway/adminForwarder.ts'
import { Gateway, type GatewayOptions } from '../../gateway/server.ts'
import { builtInPlugins } from '../../plugins/builtIn.ts'
import { testPayTo } from './settler.ts'
import { openTestStore } from './store/testStore.ts'

/** A gateway of a test: real sockets, a whole store, the plugins of a real configuration. */
export interface TestGateway {
  readonly url: string
  readonly port: number
  readonly gateway: Gateway
  readonly ports: GatewayPorts
  readonly store: DataStore
  /** What the engine writes to: the store's, behind what a test put in front of it. */
  readonly ledger: Ledger
  /** This process's own lease. */
  readonly lease: HeldLease
  readonly storeId: string
  /** Sets the store's clock forward: what is due until then is due now. */
  later(ms: number): void
  /** Puts a link of the seller `demo` in the store and returns its address. */
  addLink(
    link: Partial<Link> & Pick<Link, 'url' | 'slug'>,
  ): Promise<{ id: string; path: string; url: string }>
  /** Plugins as `use:`/`with:` entries, built for this gateway's ports. */
  build(plugins: readonly PluginUse[]): ReturnType<typeof buildGeneration>
}

export interface PluginUse {
  readonly use: string
  readonly with?: object
  readonly when?: object
}

export interface TestGatewayOptions {
  readonly settlers?: readonly Settler[]
  readonly assets?: readonly Asset[]
  readonly payout?: Partial<Payout>
  readonly plugins?: readonly PluginUse[]
  /** Plugin definitions beside the built-in ones. */
  readonly extraPlugins?: readonly AnyGatewayPlugin[]
  readonly options?: Partial<GatewayOptions>
  readonly log?: Log
  /** Bytes that answers may take while they are held; a quarter of the machine's memory by default. */
  readonly heldBytes?: number
  /** The store has this file and threads of its own, as a gateway's. */
  readonly dbPath?: string
  /** A store that is open already, such as another process's; it stays open. */
  readonly store?: DataStore
  /** Where requests go that are no calls of a link; by default they are 404. */
  readonly forwarder?: Forwarder
  /** Puts something between the plugins and a port: failures, counters, another clock. */
  readonly adapt?: (ports: GatewayPorts) => GatewayPorts
  /** Puts something between the payment engine and the ledger. */
  readonly adaptLedger?: (ledger: Ledger) => Ledger
}

/** The built-in plugins with limits that a test does not reach. */
export const defaultPlugins: readonly PluginUse[] = [
  { use: 'rate-limit', with: { points: 1_000_000, paymentPoints: 1_000_000 } },
  { use: 'health', with: { probe: false } },
  { use: 'x402' },
  { use: 'replay-guard' },
  { use: 'upstream' },
  { use: 'purchase-record' },
  { use: 'metrics' },
]

export async function startGateway(t: Test, options: TestGatewayOptions = {}): Promise<TestGateway> {
  const { settlers = [], log = silentLog } = options
  const clock = systemClock
  let aheadMs = 0
  const storeClock = { now: () => machineClock.now() + aheadMs }
  const store = options.store ?? (await openStore(options.dbPath, storeClock, log))
  const ledger = options.adaptLedger?.(store.ledger) ?? store.ledger
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8', '::1/128'], log })
  const networks = new Set(settlers.map((s) => s.network))
  const instanceId = randomUUID()
  const lease = await holdLease(store.leases, `process:${instanceId}`, log)
  const sealer = createSealer(Buffer.alloc(32, 7))
  const chains = {
    assets: options.assets ?? builtInAssets.filter((a) => networks.has(a.network)),
    settlers,
    settler: (network: string, scheme = 'exact') =>
      settlers.find((s) => s.network === network && s.schemes.some((one) => one === scheme)),
  }
  const notes = createPurchaseNotes(sealer, '_svc')
  const ownPorts: GatewayPorts = {
    clock,
    log,
    counters: createMemoryCounters(),
    links: store.links,
    payments: new PaymentEngine({ ledger, chains, notes, lease, clock, log }),
    purchases: store.purchases,
    stats: store.stats,
    healthChecks: store.healthChecks,
    leases: store.leases,
    changes: store.changes,
    egress,
    sealer,
    walletProofs: createWalletProofs({ evmChainId: 84532 }),
    nonces: store.nonces,
    receiptSigner: createReceiptSigner(sealer),
    metrics: createMetrics().metrics,
    chains,
    service: {
      publicUrl: 'http://gateway.test',
      name: 'Tollgate',
      metadataField: '_svc',
      instanceId,
      runsJobs: true,
    },
    jobChannel: createJobChannel(log),
    channels: null,
    responseBuffer: createResponseBuffer(options.heldBytes),
  }
  const ports = options.adapt?.(ownPorts) ?? ownPorts
  const build = async (uses: readonly PluginUse[]) =>
    buildGeneration(await entriesOf(uses, options.extraPlugins ?? []), ports, {
      known: builtInPlugins,
      onSlotMisuse: (error) => void t.fail(error.message),
    })
  const generation = await build(options.plugins ?? defaultPlugins)
  const notHere = (res: { writeHead(status: number): { end(): void } }) => res.writeHead(404).end()
  const gateway = new Gateway(
    generation,
    {
      ...ports,
      forwarder: options.forwarder ?? {
        web: (_req, res) => notHere(res),
        upgrade: (_req, socket) => void socket.destroy(),
        close() {},
      },
    },
    {
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 30_000,
      callTimeoutMs: 900_000,
      keepAliveTimeoutMs: 5_000,
      drainTimeoutMs: 2_000,
      maxHeaderBytes: 32_768,
      trustedProxyCidrs: [],
      accessLog: { unpaidShare: 1, unpaidPerSecond: 100 },
      ...options.options,
    },
  )
  const { port }: AddressInfo = await gateway.listen(0, '127.0.0.1')
  const storeId = randomUUID()
  if (options.store === undefined) await addStore(store, storeId, options.payout)
  t.teardown(async () => {
    await gateway.close()
    await egress.close()
    await lease.stop()
    if (options.store === undefined) await store.close()
  })
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    port,
    gateway,
    ports,
    store,
    ledger,
    lease,
    storeId,
    later(ms) {
      aheadMs += ms
    },
    build,
    async addLink(given) {
      const id = randomUUID()
      await store.links.create({ ...ownDefaults, id, storeId, ...given })
      const path = `/api/link/demo/${given.privateSlug ?? given.slug}`
      return { id, path, url: url + path }
    },
  }
}

async function openStore(path: string | undefined, storeClock: Clock, log: Log): Promise<DataStore> {
  if (path === undefined) return openTestStore({ storeClock, log })
  return openSqlite({ path, clock: systemClock, storeClock, log })
}

const ownDefaults = {
  ...linkDefaults,
  title: 'A test link',
  isPublic: true,
  isActive: true,
  linkType: 'api',
  createdAtMs: 0,
  updatedAtMs: 0,
} as const

/** For a data store that was open already: {@link startGateway} adds a shop to its own only. */
export async function addStore(store: DataStore, id: string, payout: Partial<Payout> = {}): Promise<void> {
  const common = {
    displayName: 'Demo',
    bio: '',
    avatarUrl: '',
    developerModeEnabled: true,
    createdAtMs: 0,
    updatedAtMs: 0,
  }
  const key = {
    id: randomUUID(),
    storeId: id,
    name: 'k',
    keyPrefix: 'tg_live_',
    keyHash: randomUUID(),
    isActive: true,
  }
  await store.stores.create(
    {
      ...common,
      id,
      username: 'demo',
      createdBy: 'operator',
      payout: { base: testPayTo, solana: null, ...payout },
    },
    null,
    { ...key, lastUsedAtMs: null, revokedAtMs: null, createdAtMs: 0 },
  )
}

/** Reads the entries as a configuration file would be read, defaults and checks included. */
async function entriesOf(
  uses: readonly PluginUse[],
  extra: readonly AnyGatewayPlugin[],
): Promise<readonly PluginEntry[]> {
  const all = [...extra, ...builtInPlugins]
  const text = JSON.stringify({ publicUrl: 'http://gateway.test', plugins: uses })
  const source = { ...createPluginLoader(all, process.cwd()), names: all.map((p) => p.name) }
  const { plugins } = await parseConfig(text, { file: 'test.json', env: {}, plugins: source })
  return plugins as readonly PluginEntry[]
}
