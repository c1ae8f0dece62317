import pLimit from 'p-limit'
import { type NetworkId, networkTitle } from '../../core/domain/network.ts'
import type { PastVerdict } from '../../core/ports/chains/pastSettlements.ts'
import type { RefundVerdict } from '../../core/ports/chains/refundProofs.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { isRpcError } from '../../core/rpc/post.ts'
import { boundedQueue } from '../boundedQueue.ts'

/** Options of the proofs on one network. */
export interface ProofsOptions {
  readonly network: NetworkId
  /** Nodes in the order in which they are tried, at least one. */
  readonly rpcUrls: readonly string[]
  /** Timeout of one request to a node, in ms. Default 10,000. */
  readonly rpcTimeoutMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/** The verdict when no node responds. */
interface Unavailable {
  readonly status: 'unavailable'
  /** Shown to the caller. The nodes' errors are in the log. */
  readonly message: string
}

/**
 * Creates a function that runs reads of a chain and never rejects. If no node responds, it logs the failure and returns
 * `unavailable`.
 * @param what the log's text for a read that failed
 * @returns `about` identifies the read in the log
 */
export function verdictOrUnavailable<Verdict>(network: NetworkId, log: Log, what: string) {
  return async (read: () => Promise<Verdict>, about: object): Promise<Verdict | Unavailable> => {
    try {
      return await read()
    } catch (err) {
      log.warn({ err, network, ...about }, what)
      return { status: 'unavailable', message: `No node of ${networkTitle(network)} responds now.` }
    }
  }
}

/** Runs a search of past blocks. Faults of nodes become a verdict. Faults of the database are thrown. */
export async function pastVerdictOrUnavailable(
  network: NetworkId,
  log: Log,
  read: () => Promise<PastVerdict>,
): Promise<PastVerdict> {
  try {
    return await read()
  } catch (error) {
    if (!isRpcError(error)) throw error
    log.warn({ err: error, network }, 'past settlements could not be searched')
    return { status: 'unavailable', message: error.message }
  }
}

/** A node's response about a refund. The node has the refund, or it reports how far its chain has come without it. */
export interface NodeResponse {
  readonly isKnown: boolean
  /** The time of its newest block in ms since 1970. Absent if the node does not have the sale either. */
  readonly headMs?: number
}

/**
 * Asks each node about a refund that the first node does not have, and returns the verdict. If one node has the refund, the refund
 * exists, because the other nodes may lag. A node that does not respond is ignored.
 */
export async function missingRefund<Node>(
  nodes: readonly Node[],
  request: (node: Node) => Promise<NodeResponse>,
): Promise<RefundVerdict> {
  const responses = await Promise.all(nodes.map((node) => request(node).catch(() => undefined)))
  if (responses.some((response) => response?.isKnown)) return { status: 'not_final' }
  const headMs = Math.max(...responses.map((response) => response?.headMs ?? 0))
  return { status: 'not_found', ...(headMs > 0 && { headMs }) }
}

/** Maximum number of waiting tasks. Callers would stop waiting before a later task ends. */
const MAX_WAITING = 19

/** Creates a queue in which each task begins when the previous one has ended, with or without success. A full queue rejects. */
export const serialQueue = () => boundedQueue(1, MAX_WAITING, () => new Error('The queue is full.'))

/** Works through items, `atOnce` at a time. It skips an item that fails. `work` stores its results itself. */
export async function eachOf<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const limit = pLimit(atOnce)
  await Promise.allSettled(items.map((item) => limit(work, item)))
}
