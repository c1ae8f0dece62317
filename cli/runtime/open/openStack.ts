import { randomUUID } from 'node:crypto'
import { createReceiptSigner } from '../../../adapters/chains/evm/receiptSigner.ts'
import { createWalletProofs } from '../../../adapters/chains/wallets/walletProofs.ts'
import { createEgress } from '../../../adapters/egress/egress.ts'
import { createJobChannel } from '../../../adapters/memory/changes.ts'
import { createMemoryCounters } from '../../../adapters/memory/counters.ts'
import { createResponseBuffer } from '../../../adapters/memory/responseBuffer.ts'
import { createMetrics } from '../../../adapters/metrics/metrics.ts'
import { loadSecret } from '../../../adapters/secrets/loadSecret.ts'
import { createSealer } from '../../../adapters/secrets/sealer.ts'
import { startChannelBooking } from '../../../core/channels/channelBooking.ts'
import { ChannelCalls } from '../../../core/channels/channelCalls.ts'
import { ChannelWatch } from '../../../core/channels/channelWatch.ts'
import type { Config } from '../../../core/config/schema.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import { type PaymentRecord, type PaymentState, unresolvedStates } from '../../../core/domain/payment.ts'
import { type Job, startJob } from '../../../core/jobs/job.ts'
import { PaymentEngine } from '../../../core/payments/engine.ts'
import { type HeldLease, holdLease } from '../../../core/payments/leases.ts'
import { createPurchaseNotes, type PurchaseNotes } from '../../../core/payments/purchase.ts'
import type { GatewayPorts } from '../../../core/plugin/ports.ts'
import type { Chains } from '../../../core/ports/chains/chains.ts'
import type { ConcludedOf, Settler } from '../../../core/ports/chains/settler.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import type { Counters } from '../../../core/ports/counters.ts'
import type { JobChannel } from '../../../core/ports/jobChannel.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Ledger } from '../../../core/ports/store/ledger.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { createSharedJobChannel } from '../cluster/sharedJobChannel.ts'
import { KeySharing } from '../settling/keySharing.ts'
import { type OpenChains, openChains } from './openChains.ts'
import { openDataStore } from './openStore.ts'
import { awaitSameSecret, processLeaseName } from './processLease.ts'
import { createSettlerStarts, type SettlerStarts } from './startSettlers.ts'

/**
 * The parts of the program that a reload of the plugins does not replace: the ports, and the database and chains behind them.
 */
export interface Stack {
  readonly ports: GatewayPorts
  readonly store: DataStore
  readonly chains: OpenChains
  readonly notes: PurchaseNotes
  /** The lease of this process. While this process holds it, the payments that it claims are its own work. */
  readonly lease: Pick<HeldLease, 'current'>
  /** Decides which process settles with which key. Undefined in a read-only process, and in a worker, whose primary settles. */
  readonly keys: KeySharing | undefined
  /** The networks whose settlers are not ready yet. */
  readonly starts: Pick<SettlerStarts, 'waiting'>
  /** Watches and claims payment channels, one for each network that has them. */
  readonly channelWatches: readonly ChannelWatch[]
  /** Books the calls of payment channels. Null in a process that runs no jobs, or if no channel was ever used. */
  readonly channelBooking: Job | null
  close(): Promise<void>
}

/** Time between two checks for payments that this process claimed and on which no call works, in ms. */
const ORPHANS_MS = 60_000

export interface StackOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Log
  /** Whether this process runs the background jobs of the installation. */
  readonly runsJobs: boolean
  /** False for a read-only process, which takes no lease and writes nothing. */
  readonly worksOnPayments?: boolean
  /**
   * Replaces a network's settler. A worker uses this to let its primary settle. By default, the process that holds a key's
   * lease settles.
   */
  readonly wrapSettler?: (settler: Settler) => Settler
  /** Returns false for a network that must not be offered yet. */
  readonly mayOpen?: (network: NetworkId) => boolean
  /** The channel to the process that runs the jobs. The default channel goes through the database. */
  readonly jobChannel?: JobChannel
}

/**
 * Opens the parts that a configuration needs, in the order of their dependencies. If a part fails, the parts that are already
 * open are closed.
 */
export async function openStack(
  config: Config,
  {
    env,
    log,
    runsJobs,
    worksOnPayments = true,
    wrapSettler,
    mayOpen,
    jobChannel: givenChannel,
  }: StackOptions,
): Promise<Stack> {
  const closers: (() => Promise<void>)[] = []
  const opened = <T extends { close(): Promise<void> }>(part: T): T => {
    closers.unshift(() => part.close())
    return part
  }
  const close = async () => {
    for (const closer of closers.splice(0)) await closer()
  }
  try {
    const clock = systemClock
    const instanceId = randomUUID()
    const store = opened(await openDataStore(config, clock, log))
    const sealer = createSealer(loadSecret({ file: config.secretFile, env }))
    const leaseName = processLeaseName(sealer, instanceId)
    const lease = worksOnPayments ? await holdLease(store.leases, leaseName, log) : noLease
    closers.unshift(() => lease.stop())
    if (worksOnPayments) await awaitSameSecret(store.leases, sealer, leaseName, log)
    const openJobChannel = async () => {
      if (!worksOnPayments) return createJobChannel(log)
      const { mailbox, leases } = store
      return opened(await createSharedJobChannel({ mailbox, leases, lease, runsJobs, log }))
    }
    const counters = opened(await openCounters(config, log))
    const egress = opened(createEgress({ ...egressOptions(config), clock, log }))
    const keys =
      worksOnPayments && wrapSettler === undefined
        ? new KeySharing({ mailbox: store.mailbox, leases: store.leases, lease, log })
        : undefined
    if (keys !== undefined) opened(keys)
    const wrap = wrapSettler ?? keys?.wrap
    const jobChannel = givenChannel ?? (await openJobChannel())
    const starts = opened(createSettlerStarts(store.ledger, log))
    // The primary settles a worker's sales.
    const beginSettler = worksOnPayments && wrapSettler === undefined ? starts.begin : undefined
    const gasBook = store.gas
    const chains = opened(
      await openChains(config, { clock, log, egress, gasBook, beginSettler, wrapSettler: wrap, mayOpen }),
    )
    const notes = createPurchaseNotes(sealer, config.metadataField)
    const openChannelCalls = async () => {
      // The mailbox of this process's own lease is read by `KeySharing`.
      const lease = await holdLease(store.leases, `channels:${instanceId}`, log)
      closers.unshift(() => lease.stop())
      const { channels, mailbox } = store
      return opened(new ChannelCalls({ channels, mailbox, networks: chains.channels, lease, log }))
    }
    const channelCalls = worksOnPayments && chains.channels.size > 0 ? await openChannelCalls() : null
    // What was charged and claimed is booked to the end, also if channels were removed from the configuration.
    const hasChannels = async () =>
      channelCalls !== null || (await store.channelBooks.audit(null, 1)).length > 0
    const channelBooking =
      worksOnPayments && runsJobs && (await hasChannels())
        ? startChannelBooking({ books: store.channelBooks, assets: chains.assets, log })
        : null
    if (channelBooking !== null) closers.unshift(() => channelBooking.stop())
    const channelWatches = [...chains.channels.values()].flatMap((network) =>
      channelCalls === null
        ? []
        : opened(
            new ChannelWatch({
              network,
              book: channelCalls.book,
              channels: store.channels,
              assets: chains.assets,
              clock,
              log,
              claims: () => jobChannel.isHere,
            }),
          ),
    )
    const { metrics, settled: onSettled } = createMetrics()
    const payments = new PaymentEngine({ ledger: store.ledger, chains, notes, lease, clock, log, onSettled })
    if (worksOnPayments) {
      // This job runs in every process, because only the process itself knows on which payments its calls work.
      const orphans = startJob({
        name: 'leave payments without a call to recovery',
        everyMs: ORPHANS_MS,
        log,
        async run() {
          await payments.abandonOrphans()
        },
      })
      const concluded = forgetConcludedNowAndThen(chains, store.ledger, log)
      closers.unshift(() => orphans.stop())
      closers.unshift(() => concluded.stop())
    }
    const ports: GatewayPorts = {
      clock,
      log,
      counters,
      changes: store.changes,
      egress,
      chains,
      links: store.links,
      payments,
      channels: channelCalls,
      purchases: store.purchases,
      stats: store.stats,
      healthChecks: store.healthChecks,
      leases: store.leases,
      sealer,
      walletProofs: createWalletProofs(signInChain(config)),
      nonces: store.nonces,
      receiptSigner: createReceiptSigner(sealer),
      metrics,
      service: {
        publicUrl: config.publicUrl.replace(/\/+$/, ''),
        name: config.serviceName,
        metadataField: config.metadataField,
        instanceId,
        runsJobs,
      },
      jobChannel,
      responseBuffer: createResponseBuffer(config.gateway.maxHeldBytes, config.gateway.workers),
    }
    return { ports, store, chains, notes, lease, keys, starts, channelWatches, channelBooking, close }
  } catch (error) {
    await close()
    throw error
  }
}

const noLease: HeldLease = {
  isHeld: false,
  lapses: 0,
  get current(): never {
    throw new Error('This process is read-only and does not work on payments.')
  },
  async stop() {},
}

async function openCounters({ counters }: Config, log: Log): Promise<Counters> {
  const memory = createMemoryCounters()
  if (counters.use === 'memory') return memory
  const { createRedisCounters } = await import('../../../adapters/redis/counters.ts')
  return createRedisCounters({ url: counters.url!, fallback: memory, log })
}

/** The EVM chain for wallet sign-in. It is Base or, without Base, the first EVM network of the gateway. */
function signInChain({ networks }: Config): { evmChainId?: number; evmRpcUrls?: readonly string[] } {
  const id =
    'eip155:8453' in networks ? 'eip155:8453' : Object.keys(networks).find((n) => n.startsWith('eip155:'))
  if (id === undefined) return {}
  return {
    evmChainId: Number(id.slice('eip155:'.length)),
    evmRpcUrls: networks[id as NetworkId]?.rpcUrls ?? [],
  }
}

function egressOptions({ egress }: Config) {
  const { caFile, ...options } = egress
  return { ...options, ...(caFile !== undefined && { extraCaFile: caFile }) }
}

/** Time between two checks for open payments that other processes have concluded, in ms. */
const CHECK_MS = 2_000

/** Most payments that are read in parallel. */
const READ_AT_ONCE = 8

/** A payment in one of these states may still be included in a block because of what this process sent. */
const open: readonly PaymentState[] = [...unresolvedStates, 'reorged']

/**
 * Makes settlers forget payments that this process left open and another process has concluded. One process recovers payments
 * for all. Without this, the payments would count against their payers here until they can no longer be included in a block. It
 * runs in every process that settles, because only that process has recorded which payments it left open. It includes networks
 * that open later.
 */
export function forgetConcludedNowAndThen(
  chains: Pick<Chains, 'settlers'>,
  ledger: Pick<Ledger, 'statesOf' | 'find'>,
  log: Log,
  everyMs = CHECK_MS,
): Job {
  async function forget(signal: AbortSignal): Promise<void> {
    const concludedOf: ConcludedOf = async (keys) => {
      const records: PaymentRecord[] = []
      const states = [...(await ledger.statesOf(keys))].filter(([, state]) => !open.includes(state))
      for (let from = 0; from < states.length && !signal.aborted; from += READ_AT_ONCE) {
        const some = states.slice(from, from + READ_AT_ONCE)
        // The records are read again, because a payment may have been claimed again meanwhile.
        for (const record of await Promise.all(some.map(([key]) => ledger.find(key))))
          if (record !== undefined && !open.includes(record.state)) records.push(record)
      }
      return records
    }
    await Promise.all([...chains.settlers].map((settler) => settler.forgetConcluded?.(concludedOf)))
  }
  return startJob({ name: 'forget payments that other processes concluded', everyMs, log, run: forget })
}
