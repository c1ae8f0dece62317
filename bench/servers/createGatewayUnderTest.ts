import { randomUUID } from 'node:crypto'
import { createReceiptSigner } from '../../adapters/chains/evm/receiptSigner.ts'
import { createWalletProofs } from '../../adapters/chains/wallets/walletProofs.ts'
import { createEgress } from '../../adapters/egress/egress.ts'
import { createChanges } from '../../adapters/memory/changes.ts'
import { createMemoryCounters } from '../../adapters/memory/counters.ts'
import { createResponseBuffer } from '../../adapters/memory/responseBuffer.ts'
import { createMetrics } from '../../adapters/metrics/metrics.ts'
import { createSealer } from '../../adapters/secrets/sealer.ts'
import { openSqlite } from '../../adapters/store/sqlite/openSqlite.ts'
import { limitThreadHeaps } from '../../cli/runtime/heap/limitThreadHeaps.ts'
import { keepTickShape } from '../../cli/runtime/heap/tickObjectShape.ts'
import { parseConfig } from '../../core/config/loadConfig.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import { type Link, linkDefaults } from '../../core/domain/link.ts'
import { buildGeneration, type PluginEntry } from '../../core/kernel/generation.ts'
import { createPluginLoader } from '../../core/kernel/pluginLoader.ts'
import { PaymentEngine } from '../../core/payments/engine.ts'
import { holdLease } from '../../core/payments/leases.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import type { GatewayPorts } from '../../core/plugin/ports.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import { Gateway } from '../../gateway/server.ts'
import { builtInPlugins } from '../../plugins/builtIn.ts'
import type { StoreAt } from '../scale/target.ts'
import { payTo } from './offer.ts'
import bought, { createForgetfulLedger, createLibraryCounters, createStubbedSettler } from './standIns.ts'

/** Opens the store of a bench's program. */
async function openStoreAt(at: StoreAt): Promise<DataStore> {
  const options = { clock: systemClock, log: silentLog }
  if (!('postgresUrl' in at)) return openSqlite({ ...options, path: at.dbPath })
  // As in the shipped command, a gateway with a SQLite file does not load the driver.
  const { openPostgres } = await import('../../adapters/store/postgres/openPostgres.ts')
  return openPostgres({ ...options, url: at.postgresUrl, schema: at.schema })
}

export interface GatewayServerOptions {
  readonly upstreamPort: number
  /** Where the database file is made. */
  readonly folder: string
  readonly links: readonly LinkSpec[]
  /** Names in the place of the usual plugin list. */
  readonly plugins?: readonly string[]
  /** Whether EIP-3009 signatures are checked; without, every payment passes. Default true. */
  readonly checksSignatures?: boolean
  /** Whether payments are written to disk; without, they are kept in a Map. Default true. */
  readonly storesPayments?: boolean
  /** Whose counters the limits are counted by, in memory. Default `own`. */
  readonly counters?: 'own' | 'library'
}

export interface LinkSpec {
  readonly slug: string
  /** Path at the canned seller. */
  readonly path: string
  readonly price?: string
  readonly responseMode?: Link['responseMode']
  readonly settle?: Link['settle']
}

export const usualPlugins = [
  'rate-limit',
  'health',
  'x402',
  'replay-guard',
  'upstream',
  'purchase-record',
  'metrics',
]

/** Builds the whole gateway on a store, with limits that a bench does not reach. */
export async function createGatewayUnderTest(
  options: GatewayServerOptions & StoreAt,
): Promise<{ listen(): Promise<number>; readonly store: DataStore }> {
  keepTickShape()
  limitThreadHeaps()
  const clock = systemClock
  const log = silentLog
  const store = await openStoreAt(options)
  await fill(store, options)
  const settler = createStubbedSettler(options.checksSignatures ?? true)
  const instanceId = randomUUID()
  const lease = await holdLease(store.leases, `process:${instanceId}`, log)
  const sealer = createSealer(Buffer.alloc(32, 7))
  const notes = createPurchaseNotes(sealer, '_svc')
  const ledger = options.storesPayments === false ? createForgetfulLedger() : store.ledger
  const chains = {
    assets: builtInAssets.filter((asset) => asset.network === settler.network),
    settlers: [settler],
    settler: (network: string) => (network === settler.network ? settler : undefined),
  }
  const ports: GatewayPorts = {
    clock,
    log,
    counters: options.counters === 'library' ? createLibraryCounters() : createMemoryCounters(),
    links: store.links,
    payments: new PaymentEngine({ ledger, chains, notes, lease, clock, log }),
    purchases: store.purchases,
    stats: store.stats,
    healthChecks: store.healthChecks,
    leases: store.leases,
    changes: createChanges(),
    egress: createEgress({ allowPrivateCidrs: ['127.0.0.0/8'], log }),
    sealer,
    walletProofs: createWalletProofs(),
    nonces: store.nonces,
    receiptSigner: createReceiptSigner(sealer),
    metrics: createMetrics().metrics,
    chains,
    service: {
      publicUrl: 'http://gateway.test',
      name: 'Tollgate',
      metadataField: '_svc',
      instanceId,
      runsJobs: false,
    },
    jobChannel: { isHere: false, post() {}, listen: () => () => undefined },
    channels: null,
    responseBuffer: createResponseBuffer(),
  }
  const generation = await buildGeneration(await entriesOf(options.plugins ?? usualPlugins), ports)
  const forwarder = { web() {}, upgrade() {}, close() {} }
  const gateway = new Gateway(
    generation,
    { ...ports, forwarder },
    {
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 60_000,
      callTimeoutMs: 900_000,
      keepAliveTimeoutMs: 65_000,
      drainTimeoutMs: 1_000,
      maxHeaderBytes: 32_768,
      trustedProxyCidrs: [],
      accessLog: { unpaidShare: 1, unpaidPerSecond: 100 },
    },
  )
  return { store, listen: async () => (await gateway.listen(0, '127.0.0.1')).port }
}

async function entriesOf(names: readonly string[]): Promise<readonly PluginEntry[]> {
  const limits = { points: 1_000_000_000, paymentPoints: 1_000_000_000 }
  const uses = names.map((use) => ({ use, ...(use === 'rate-limit' && { with: limits }) }))
  const all = [...builtInPlugins, bought]
  const source = { ...createPluginLoader(all, process.cwd()), names: all.map((plugin) => plugin.name) }
  const text = JSON.stringify({ publicUrl: 'http://gateway.test', plugins: uses })
  const { plugins } = await parseConfig(text, { file: 'bench.json', env: {}, plugins: source })
  return plugins as readonly PluginEntry[]
}

/** Its links, unless they are there from a run before. */
async function fill(store: DataStore, { links, upstreamPort }: GatewayServerOptions): Promise<void> {
  if ((await store.stores.byUsername('demo')) !== undefined) return
  const storeId = randomUUID()
  const seller = {
    id: storeId,
    username: 'demo',
    displayName: 'Demo',
    bio: '',
    avatarUrl: '',
    developerModeEnabled: true,
    createdBy: 'operator',
    createdAtMs: 0,
    updatedAtMs: 0,
    payout: { base: payTo, solana: null },
  } as const
  const key = {
    id: randomUUID(),
    storeId,
    name: 'bench',
    keyPrefix: 'tg_live_',
    keyHash: randomUUID(),
    isActive: true,
    lastUsedAtMs: null,
    revokedAtMs: null,
    createdAtMs: 0,
  }
  await store.stores.create(seller, null, key)
  for (const { path, ...link } of links) {
    const url = `http://127.0.0.1:${upstreamPort}${path}`
    await store.links.create({ ...ownDefaults, id: randomUUID(), storeId, url, ...link })
  }
}

const ownDefaults = {
  ...linkDefaults,
  title: 'A link of the bench',
  description: 'Answers with fixed bytes.',
  isPublic: true,
  isActive: true,
  linkType: 'api',
  createdAtMs: 0,
  updatedAtMs: 0,
} as const
