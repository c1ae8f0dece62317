import { setTimeout as wait } from 'node:timers/promises'
import type { NetworkId } from '../../core/domain/network.ts'
import { leaseNamesOf } from '../../core/payments/leases.ts'
import type { Settler } from '../../core/ports/chains/settler.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import { cachedRead } from './cachedRead.ts'
import type { OpenChains } from './open/openChains.ts'
import type { SettlerStarts } from './open/startSettlers.ts'

/** One part that must work so that the gateway can sell everything that it offers. */
export interface PartOfReadiness {
  readonly part: 'database' | 'settler'
  /** The network of the settler. Null for other parts. */
  readonly network: NetworkId | null
  /** Why the part does not work, in sentences for the operator. Empty if it works. */
  readonly problems: readonly string[]
}

export interface ReadinessDeps {
  readonly store: Pick<DataStore, 'health' | 'leases'>
  readonly chains: Pick<OpenChains, 'settlers' | 'missing'>
  readonly starts: Pick<SettlerStarts, 'waiting'>
  /** True if this process takes no settling key. It then checks whether another process has it. */
  readonly isSettledElsewhere: boolean
}

/**
 * Minimum time between two requests to a network's nodes or facilitator, in ms. It applies because any client may request the
 * readiness.
 */
const AGE_MS = 1_000
/**
 * How long a check waits for a part's response, in ms. After that the part counts as unavailable until a later check gets a
 * response.
 */
const PATIENCE_MS = 3_000

/**
 * Creates the readiness check of the database and of each network. The check responds within a few seconds even if a part is
 * down.
 */
export function createReadiness({
  store,
  chains,
  starts,
  isSettledElsewhere,
}: ReadinessDeps): () => Promise<readonly PartOfReadiness[]> {
  const readings = new WeakMap<Settler, ReturnType<typeof readingOf>>()

  const readingOf = (settler: Settler) =>
    cachedRead(() => inTime(settler.diagnose()), Date.now, { ageMs: AGE_MS, patienceMs: 2 * PATIENCE_MS })

  async function withoutHolder(settler: Settler): Promise<string[]> {
    if (!isSettledElsewhere || settler.isExclusive !== true) return []
    const asked = leaseNamesOf(settler).map((name) => store.leases.holderOf(name))
    // If the database does not respond, the list already contains that problem.
    const holders = await inTime(Promise.all(asked)).catch(() => [null])
    return holders.every((holder) => holder === undefined)
      ? ['no process has the settling key, so paid calls are refused. Start a process with --only jobs']
      : []
  }

  async function ofSettler(settler: Settler): Promise<PartOfReadiness> {
    const { network } = settler
    let reading = readings.get(settler)
    if (reading === undefined) readings.set(settler, (reading = readingOf(settler)))
    const [{ value = [], fault }, holderless] = await Promise.all([reading(), withoutHolder(settler)])
    const unstarted = starts.waiting.has(network)
      ? [
          'the state of the settler cannot be read from the database, so paid calls are refused. This process tries again',
        ]
      : []
    // This refusal is newer than the last read of the chain, because a sale may have caused it a moment ago.
    const refusal = settler.refusesAll?.()
    const refused = refusal === undefined ? [] : [`every payment is refused now. ${refusal.message}`]
    const problems = [...(fault === undefined ? value : [fault]), ...refused, ...holderless, ...unstarted]
    const prefix = `${network}: `
    // Most sentences already begin with the network.
    const named = problems.map((problem) => (problem.startsWith(prefix) ? problem : prefix + problem))
    return { part: 'settler', network, problems: named }
  }

  return async () => {
    const ofStore = inTime(store.health()).catch((error: unknown) => [`The database: ${messageOf(error)}`])
    const [problems, ...settlers] = await Promise.all([ofStore, ...chains.settlers.map(ofSettler)])
    return [
      { part: 'database', network: null, problems },
      ...settlers,
      ...chains.missing.map((network) => ({
        part: 'settler' as const,
        network,
        problems: [
          `${network}: the facilitator of the network has not responded, so the network is not offered yet`,
        ],
      })),
    ]
  }
}

/** Waits for a response. @throws if there is no response in time */
async function inTime<T>(response: Promise<T>): Promise<T> {
  const over = new AbortController()
  const late = wait(PATIENCE_MS, undefined, { ref: false, signal: over.signal }).then(() => {
    throw new Error(`no response in ${PATIENCE_MS / 1_000} s`)
  })
  late.catch(() => undefined)
  try {
    return await Promise.race([response, late])
  } finally {
    over.abort()
  }
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
