import { quantity } from '../../../../core/evm/quantity.ts'
import {
  isLogEntry,
  isUnreadable,
  type LogEntry,
  type Receipt,
  readReceipt,
} from '../../../../core/evm/transferProof.ts'
import { type LooseAnswer, resultOf } from '../../../../core/rpc/answer.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { RpcUnreachable } from '../../../../core/rpc/rpcError.ts'

// What every search of past blocks asks of a node, and how it reads the answers.

/** Blocks that one `eth_getLogs` may cover; providers cap it, the strictest common ones at 1,000. */
export const BLOCKS_PER_QUERY = 1_000
/** Blocks back from the newest at which the time is read, so that it is known where to stop: up to all that is searched. */
const probes = [11, 12, 13, 14, 15, 16, 17].map((power) => 2 ** power)

/** Events, or undefined for an answer that is no list of them. */
export function logsOf(answer: LooseAnswer | undefined): LogEntry[] | undefined {
  if (!answer?.ok || !Array.isArray(answer.result)) return undefined
  return answer.result.every(isLogEntry) ? answer.result : undefined
}

/**
 * The receipt of one transaction; undefined where the node has none.
 *
 * @throws {RpcUnreachable} {RpcRefused} when the node did not answer, or what it has can not be read: that is not missing
 */
export function receiptIn(answer: LooseAnswer | undefined, transaction: string): Receipt | undefined {
  const result = resultOf(answer)
  if (isUnreadable(result, transaction))
    throw new RpcUnreachable(`the node's receipt of ${transaction} can not be read`)
  return readReceipt(result, transaction)
}

/** The receipts that a node has, by hash. */
export async function receiptsOf(rpc: Rpc, transactions: readonly string[]): Promise<Map<string, Receipt>> {
  const hashes = [...new Set(transactions)]
  const answers = await rpc.many(
    hashes.map((hash) => ({ method: 'eth_getTransactionReceipt', params: [hash] })),
  )
  const receipts = new Map<string, Receipt>()
  for (const [i, answer] of answers.entries()) {
    const receipt = answer.ok ? readReceipt(answer.result, hashes[i]!) : undefined
    if (receipt !== undefined) receipts.set(hashes[i]!, receipt)
  }
  return receipts
}

/** The times of some blocks before this one, newest first, by one request; the last one stands for the end of the search. */
export async function timesBefore(rpc: Rpc, newest: number): Promise<{ number: number; seconds: number }[]> {
  const numbers = [...probes.map((back) => newest - back).filter((number) => number > 0), 0]
  const answers = await rpc.many(
    numbers.map((number) => ({ method: 'eth_getBlockByNumber', params: [hex(number), false] })),
  )
  return numbers.map((number, i) => {
    const answer = answers[i]!
    const block = answer.ok ? (answer.result as { readonly timestamp?: unknown } | null) : null
    // A pruned node has no such block; whatever it does have is later.
    return { number, seconds: block === null ? 0 : secondsOf(block.timestamp) }
  })
}

/** Garbage counts as long ago: the search ends there. */
function secondsOf(timestamp: unknown): number {
  try {
    return Number(quantity(timestamp))
  } catch {
    return 0
  }
}

/** A number as nodes read it. */
export const hex = (value: number): string => `0x${value.toString(16)}`
