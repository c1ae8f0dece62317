import { randomUUID } from 'node:crypto'
import { createEgress } from '../../../adapters/egress/createEgress.ts'
import { createAnswerMemory } from '../../../adapters/memory/answerMemory.ts'
import { createMemoryCounters } from '../../../adapters/memory/counters.ts'
import { createJobLine } from '../../../adapters/memory/jobLine.ts'
import { createMetrics } from '../../../adapters/metrics/createMetrics.ts'
import { createSealer } from '../../../adapters/secrets/createSealer.ts'
import { loadSecret } from '../../../adapters/secrets/loadSecret.ts'
import type { Config } from '../../../core/config/types.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import { createPayments } from '../../../core/payments/engine.ts'
import { type HeldLease, holdLease } from '../../../core/payments/heldLease.ts'
import type { Payments } from '../../../core/payments/payments.ts'
import { createPurchaseNotes, type PurchaseNotes } from '../../../core/payments/purchase.ts'
import type { GatewayPorts } from '../../../core/plugin/ports.ts'
import type { RefundProofs } from '../../../core/ports/chains/refundProofs.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import type { TransferProofs } from '../../../core/ports/chains/transferProofs.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import type { Counters } from '../../../core/ports/counters.ts'
import type { JobLine } from '../../../core/ports/jobLine.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { createKeySharing, type KeySharing } from '../keys/keySharing.ts'
import { createSharedJobLine } from '../keys/sharedJobLine.ts'
import { forgetConcludedNowAndThen } from './forgetConcluded.ts'
import { awaitOneSecret, processLeaseName } from './oneSecret.ts'
import { type OpenChains, openChains } from './openChains.ts'
import { openRefundProofs } from './openRefundProofs.ts'
import { openDataStore } from './openStore.ts'
import { openTransferProofs } from './openTransferProofs.ts'
import { createSettlerStarts, type SettlerStarts } from './startSettlers.ts'

/** Everything that outlives a reload of the plugins: the ports, and the store and chains behind them. */
export interface Stack {
  readonly ports: GatewayPorts
  readonly store: DataStore
  readonly chains: OpenChains
  readonly notes: PurchaseNotes
  /** Nobody settles plain transfers; this is who knows of them. */
  readonly transferProofs: TransferProofs
  readonly refundProofs: RefundProofs
  /** This process's own: what it claims is its work while it holds this. */
  readonly lease: Pick<HeldLease, 'current'>
  /** Who settles with which key; undefined in a process that only looks, and in a worker, whose primary knows. */
  readonly keys: KeySharing | undefined
  /** What can't settle here yet. */
  readonly starts: Pick<SettlerStarts, 'waiting'>
  close(): Promise<void>
}

/** Between two looks for rows of this process's that no call works on. */
const STRAYS_MS = 60_000

export interface StackOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Log
  /** Whether this process does the background work of the installation. */
  readonly runsJobs: boolean
  /** False for a process that only looks: it takes no lease, and writes nothing. */
  readonly worksOnPayments?: boolean
  /** Puts another settler in a network's place; a worker process lets the primary settle. Absent: who has a key settles. */
  readonly wrapSettler?: (settler: Settler) => Settler
  /** False for a network that is not to be offered yet. */
  readonly mayOpen?: (network: NetworkId) => boolean
  /** The line to the process that runs the jobs. Absent: through the store. */
  readonly jobLine?: JobLine
}

/** Opens what a configuration names, in the order of need; what was opened is closed again when a later part fails. */
export async function openStack(
  config: Config,
  { env, log, runsJobs, worksOnPayments = true, wrapSettler, mayOpen, jobLine: givenLine }: StackOptions,
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
    if (worksOnPayments) await awaitOneSecret(store.leases, sealer, leaseName, log)
    const openJobLine = async () => {
      if (!worksOnPayments) return createJobLine(log)
      const { letters, leases } = store
      return opened(await createSharedJobLine({ letters, leases, lease, runsJobs, log }))
    }
    const counters = opened(await openCounters(config, log))
    const egress = opened(createEgress({ ...egressOptions(config), clock, log }))
    const keys =
      worksOnPayments && wrapSettler === undefined
        ? createKeySharing({ letters: store.letters, leases: store.leases, lease, log })
        : undefined
    if (keys !== undefined) opened(keys)
    const wrap = wrapSettler ?? keys?.wrap
    const jobLine = givenLine ?? (await openJobLine())
    const starts = opened(createSettlerStarts(store.books, log))
    // What a worker sells its primary settles.
    const beginSettler = worksOnPayments && wrapSettler === undefined ? starts.begin : undefined
    const gasBook = store.gas
    const chains = opened(
      await openChains(config, { clock, log, egress, gasBook, beginSettler, wrapSettler: wrap, mayOpen }),
    )
    const notes = createPurchaseNotes(sealer, config.metadataField)
    const { metrics, settled: onSettled } = createMetrics()
    const payments = createPayments({ books: store.books, chains, notes, lease, clock, log, onSettled })
    if (worksOnPayments) closers.unshift(leaveStraysNowAndThen(payments, log))
    if (worksOnPayments) closers.unshift(forgetConcludedNowAndThen(chains, store.books, log))
    const ports: GatewayPorts = {
      clock,
      log,
      counters,
      changes: store.changes,
      egress,
      chains,
      links: store.links,
      payments,
      purchases: store.purchases,
      figures: store.figures,
      healthChecks: store.healthChecks,
      leases: store.leases,
      sealer,
      metrics,
      service: {
        publicUrl: config.publicUrl.replace(/\/+$/, ''),
        name: config.serviceName,
        metadataField: config.metadataField,
        instanceId,
        runsJobs,
      },
      jobLine,
      answerMemory: createAnswerMemory(config.gateway.maxHeldBytes, config.gateway.workers),
    }
    const transferProofs = openTransferProofs(config, { clock, log })
    const refundProofs = openRefundProofs(config, { clock, log })
    return { ports, store, chains, notes, lease, keys, transferProofs, refundProofs, starts, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** In every process: no other one knows which rows its calls work on. */
function leaveStraysNowAndThen(payments: Payments, log: Log): () => Promise<void> {
  const timer = setInterval(() => {
    payments
      .leaveStrays()
      .catch((err: unknown) => log.warn({ err }, 'could not look for payments without a call; trying again'))
  }, STRAYS_MS)
  timer.unref()
  return async () => clearInterval(timer)
}

const noLease: HeldLease = {
  isHeld: false,
  lapses: 0,
  get current(): never {
    throw new Error('This process only looks; it works on no payments.')
  },
  async stop() {},
}

async function openCounters({ counters }: Config, log: Log): Promise<Counters> {
  const memory = createMemoryCounters()
  if (counters.use === 'memory') return memory
  const { createRedisCounters } = await import('../../../adapters/redis/counters.ts')
  return createRedisCounters({ url: counters.url!, fallback: memory, log })
}

function egressOptions({ egress }: Config) {
  const { caFile, ...options } = egress
  return { ...options, ...(caFile !== undefined && { extraCaFile: caFile }) }
}
