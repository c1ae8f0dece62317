import type { EvmCall } from '../../../../core/evm/token.ts'
import {
  isLogEntry,
  isUnreadable,
  type LogEntry,
  type Receipt,
  readReceipt,
} from '../../../../core/evm/transferProof.ts'
import { type LooseResponse, quantity, RpcUnreachable, resultOf } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'

// Requests of the searches through past blocks, and parsers of their responses.

/** Blocks per `eth_getLogs`. Providers limit the number, and the strictest common limit is 1,000. */
export const BLOCKS_PER_QUERY = 1_000
/**
 * Distances from the newest block, in blocks, at which the search reads the block time to find where to stop. The last one limits
 * the search.
 */
const probes = [11, 12, 13, 14, 15, 16, 17].map((power) => 2 ** power)

/** Events, or undefined if the response is not a list of events. */
export function logsOf(response: LooseResponse | undefined): LogEntry[] | undefined {
  if (!response?.ok || !Array.isArray(response.result)) return undefined
  return response.result.every(isLogEntry) ? response.result : undefined
}

/**
 * The receipt of one transaction, or undefined when the node has none.
 *
 * @throws {RpcUnreachable} {RpcRefused} when the node did not respond or its receipt cannot be read, because that does not prove a
 * missing receipt
 */
export function receiptIn(response: LooseResponse | undefined, transaction: string): Receipt | undefined {
  const result = resultOf(response)
  if (isUnreadable(result, transaction))
    throw new RpcUnreachable(`the node's receipt of ${transaction} cannot be read`)
  return readReceipt(result, transaction)
}

/**
 * The receipts that a node has, by hash.
 *
 * @param unanswered gets the hashes for which no node returned a response, for example because the response is too long
 * @param unreadable gets the hashes of receipts that a node returned but that cannot be read
 */
export async function receiptsOf(
  rpc: Rpc,
  transactions: readonly string[],
  unanswered?: Set<string>,
  unreadable?: Set<string>,
): Promise<Map<string, Receipt>> {
  const hashes = [...new Set(transactions)]
  const responses = await rpc.many(
    hashes.map((hash) => ({ method: 'eth_getTransactionReceipt', params: [hash] })),
  )
  const receipts = new Map<string, Receipt>()
  for (const [i, response] of responses.entries()) {
    if (!response.ok) unanswered?.add(hashes[i]!)
    else if (isUnreadable(response.result, hashes[i]!)) unreadable?.add(hashes[i]!)
    const receipt = response.ok ? readReceipt(response.result, hashes[i]!) : undefined
    if (receipt !== undefined) receipts.set(hashes[i]!, receipt)
  }
  return receipts
}

/** The calls of transactions, by hash. A transaction that the node does not return is missing. */
export async function callsOf(rpc: Rpc, transactions: readonly string[]): Promise<Map<string, EvmCall>> {
  const hashes = [...new Set(transactions)]
  const responses = await rpc.many(
    hashes.map((hash) => ({ method: 'eth_getTransactionByHash', params: [hash] })),
  )
  return new Map(
    hashes.flatMap((hash, i): [string, EvmCall][] => {
      const response = responses[i]!
      const { to, input } = (response.ok && (response.result as Record<string, unknown> | null)) || {}
      return typeof to === 'string' && typeof input === 'string' ? [[hash, { to, data: input }]] : []
    }),
  )
}

/** The times of some blocks before this one, newest first, in one request. The search ends at the last of them. */
export async function timesBefore(rpc: Rpc, newest: number): Promise<{ number: number; seconds: number }[]> {
  const numbers = [...probes.map((back) => newest - back).filter((number) => number > 0), 0]
  const responses = await rpc.many(
    numbers.map((number) => ({ method: 'eth_getBlockByNumber', params: [hex(number), false] })),
  )
  return numbers.map((number, i) => {
    const response = responses[i]!
    const block = response.ok ? (response.result as { readonly timestamp?: unknown } | null) : null
    // A pruned node does not have this block, so it counts as older than every block that the node has.
    return { number, seconds: block === null ? 0 : secondsOf(block.timestamp) }
  })
}

/** How long before a payment's claim a search starts, in seconds. It covers clock differences and confirmations. */
const SEARCH_BACK_SECONDS = 3_600

/**
 * The block before which a search for a payment need not look, because the authorization cannot have been used long before the claim.
 *
 * @param timed the result of {@link timesBefore}
 * @param sinceMs when the payment was claimed, in ms since 1970
 */
export const oldestFor = (timed: readonly { number: number; seconds: number }[], sinceMs: number): number =>
  timed.find(({ seconds }) => seconds <= sinceMs / 1000 - SEARCH_BACK_SECONDS)?.number ?? timed.at(-1)!.number

/** An unreadable time counts as 0, which ends the search there. */
function secondsOf(timestamp: unknown): number {
  try {
    return Number(quantity(timestamp))
  } catch {
    return 0
  }
}

/** A number in the form that nodes expect. */
export const hex = (value: number): string => `0x${value.toString(16)}`
