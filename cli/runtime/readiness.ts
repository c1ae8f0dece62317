import { setTimeout as wait } from 'node:timers/promises'
import type { NetworkId } from '../../core/domain/network.ts'
import { leaseNamesOf } from '../../core/payments/keyLease.ts'
import type { Settler } from '../../core/ports/chains/settler.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import { keptLook } from './keptLook.ts'
import type { OpenChains } from './open/openChains.ts'
import type { SettlerStarts } from './open/startSettlers.ts'

/** One of what has to work, for the service to sell everything that it offers. */
export interface PartOfReadiness {
  readonly part: 'store' | 'settler'
  /** Whose settler it is. */
  readonly network: NetworkId | null
  /** What keeps it from working, in words for the operator; empty when all is well. */
  readonly problems: readonly string[]
}

export interface ReadinessParts {
  readonly store: Pick<DataStore, 'health' | 'leases'>
  readonly chains: Pick<OpenChains, 'settlers' | 'missing'>
  readonly starts: Pick<SettlerStarts, 'waiting'>
  /** This process takes no settling key: whether another one has it is asked. */
  readonly isSettledElsewhere: boolean
}

/** Before a network's nodes, or its facilitator, are asked again: anybody may ask whether the service is ready. */
const AGE_MS = 1_000
/** Who does not answer in this time counts as away. The next who asks hears of its return, whatever became of this question. */
const PATIENCE_MS = 3_000

/** Makes what says whether the service can work: the store first, then each network. It answers soon, whoever is away. */
export function createReadiness({
  store,
  chains,
  starts,
  isSettledElsewhere,
}: ReadinessParts): () => Promise<readonly PartOfReadiness[]> {
  const looks = new WeakMap<Settler, ReturnType<typeof lookAt>>()

  const lookAt = (settler: Settler) =>
    keptLook(() => inTime(settler.diagnose()), Date.now, { ageMs: AGE_MS, patienceMs: 2 * PATIENCE_MS })

  async function withoutHolder(settler: Settler): Promise<string[]> {
    if (!isSettledElsewhere || settler.isExclusive !== true) return []
    const asked = leaseNamesOf(settler).map((name) => store.leases.holderOf(name))
    // A store that can't say is in the list already.
    const holders = await inTime(Promise.all(asked)).catch(() => [null])
    return holders.every((holder) => holder === undefined)
      ? ['no process has its settling key, and paid calls are refused: start one with --only jobs']
      : []
  }

  async function ofSettler(settler: Settler): Promise<PartOfReadiness> {
    const { network } = settler
    let look = looks.get(settler)
    if (look === undefined) looks.set(settler, (look = lookAt(settler)))
    const [{ value = [], fault }, holderless] = await Promise.all([look(), withoutHolder(settler)])
    const unstarted = starts.waiting.has(network)
      ? ['what the database has for its settler can not be read, and paid calls are refused; trying again']
      : []
    // Younger than what was seen of the chain: a sale may have found it out a moment ago.
    const refusal = settler.refusesAll?.()
    const refused = refusal === undefined ? [] : [`every payment is refused now: ${refusal.message}`]
    const problems = [...(fault === undefined ? value : [fault]), ...refused, ...holderless, ...unstarted]
    const prefix = `${network}: `
    // Most settlers name it themselves.
    const named = problems.map((problem) => (problem.startsWith(prefix) ? problem : prefix + problem))
    return { part: 'settler', network, problems: named }
  }

  return async () => {
    const ofStore = inTime(store.health()).catch((error: unknown) => [`The database: ${messageOf(error)}`])
    const [problems, ...settlers] = await Promise.all([ofStore, ...chains.settlers.map(ofSettler)])
    return [
      { part: 'store', network: null, problems },
      ...settlers,
      ...chains.missing.map((network) => ({
        ...{ part: 'settler' as const, network },
        problems: [`${network}: its facilitator has not answered; not offered yet`],
      })),
    ]
  }
}

/** @throws when there is no answer in time */
async function inTime<T>(answer: Promise<T>): Promise<T> {
  const over = new AbortController()
  const late = wait(PATIENCE_MS, undefined, { ref: false, signal: over.signal }).then(() => {
    throw new Error(`no answer in ${PATIENCE_MS / 1_000} s`)
  })
  late.catch(() => undefined)
  try {
    return await Promise.race([answer, late])
  } finally {
    over.abort()
  }
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
