import { randomUUID } from 'node:crypto'
import { createEgress } from '../../adapters/egress/createEgress.ts'
import { createMemoryCounters } from '../../adapters/memory/counters.ts'
import { createJobLine } from '../../adapters/memory/jobLine.ts'
import { createSealer } from '../../adapters/secrets/createSealer.ts'
import { loadSecret } from '../../adapters/secrets/loadSecret.ts'
import { createSqliteChanges } from '../../adapters/sqlite/changes.ts'
import { openSqlite, type SqliteStore } from '../../adapters/sqlite/openSqlite.ts'
import type { Config } from '../../core/config/types.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import type { GatewayPorts } from '../../core/plugin/ports.ts'
import { systemClock } from '../../core/ports/clock.ts'
import type { Counters } from '../../core/ports/counters.ts'
import type { JobLine } from '../../core/ports/jobLine.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Metrics } from '../../core/ports/metrics.ts'
import type { Settler } from '../../core/ports/settler.ts'
import { type OpenChains, openChains } from './openChains.ts'

/** Everything that outlives a reload of the plugins: the ports, and the store and chains behind them. */
export interface Stack {
  readonly ports: GatewayPorts
  readonly store: SqliteStore
  readonly chains: OpenChains
  close(): Promise<void>
}

export interface StackOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Log
  /** Whether this process does the background work of the installation. */
  readonly runsJobs: boolean
  /** Puts another settler in a network's place; a worker process lets the primary settle. */
  readonly wrapSettler?: (settler: Settler) => Settler
  /** False for a network that is not to be offered yet. */
  readonly mayOpen?: (network: NetworkId) => boolean
  /** The line to the process that runs the jobs; this process itself when absent. */
  readonly jobLine?: JobLine
}

/** Opens what a configuration names, in the order of need; what was opened is closed again when a later part fails. */
export async function openStack(
  config: Config,
  { env, log, runsJobs, wrapSettler, mayOpen, jobLine = createJobLine(log) }: StackOptions,
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
    const store = opened(await openSqlite({ path: config.storage.path, clock, log }))
    const changes = opened(createSqliteChanges(store, { log }))
    const counters = opened(await openCounters(config, log))
    const egress = opened(createEgress({ ...egressOptions(config), clock, log }))
    const chains = opened(await openChains(config, { clock, log, egress, wrapSettler, mayOpen }))
    const ports: GatewayPorts = {
      clock,
      log,
      counters,
      changes,
      egress,
      chains,
      links: store.links,
      payments: store.payments,
      purchases: store.purchases,
      sealer: createSealer(loadSecret({ file: config.secretFile, env })),
      metrics: createMetrics(),
      service: {
        publicUrl: config.publicUrl.replace(/\/+$/, ''),
        name: config.serviceName,
        metadataField: config.metadataField,
        instanceId: randomUUID(),
        runsJobs,
      },
      jobLine,
    }
    return { ports, store, chains, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function openCounters({ counters }: Config, log: Log): Promise<Counters> {
  const memory = createMemoryCounters()
  if (counters.use === 'memory') return memory
  const { createRedisCounters } = await import('../../adapters/redis/counters.ts')
  return createRedisCounters({ url: counters.url!, fallback: memory, log })
}

function egressOptions({ egress }: Config) {
  const { caFile, ...options } = egress
  return { ...options, ...(caFile !== undefined && { extraCaFile: caFile }) }
}

function createMetrics(): Metrics {
  let source: Metrics['source']
  return {
    register(next) {
      source = next
    },
    get source() {
      return source
    },
  }
}
