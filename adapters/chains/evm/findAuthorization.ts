import { addressWord } from './payCall.ts'
import { quantity } from './quantity.ts'
import type { Rpc } from './rpc.ts'
import { reading, token, topics, wordOf } from './token.ts'
import { type ExpectedTransfer, type LogEntry, provesTransfer, readReceipt } from './transferProof.ts'

/** Blocks that one `eth_getLogs` may cover; providers cap it, the strictest common ones at 1,000. */
const blocksPerQuery = 1_000
const maxQueries = 100
/** A payment can't have been used on chain long before it was claimed; this much covers clocks and confirmations. */
const lookBackSeconds = 3_600

/** What the chain knows of an authorisation, whoever broadcast it. */
export type AuthorizationFate =
  | { readonly fate: 'unused' }
  /** The transfer is there, in this transaction. */
  | { readonly fate: 'paid'; readonly transaction: string }
  /** The nonce is gone, and the money did not go to the payee: cancelled, or used for other terms. */
  | { readonly fate: 'spent'; readonly transaction: string }
  /** The nonce is gone, and the event that says how was not found. */
  | { readonly fate: 'lost' }

/**
 * Finds out what became of an authorisation by the token's own state and events, as of one block: an observer may have
 * broadcast the buyer's authorisation first, and that pays just as well.
 *
 * @param sinceMs when the payment was claimed, in ms since 1970; events long before that are not looked for
 * @throws {RpcUnreachable} {RpcRefused} when the node can't say
 */
export async function findAuthorization(
  rpc: Rpc,
  expected: ExpectedTransfer,
  blockNumber: number,
  sinceMs: number,
): Promise<AuthorizationFate> {
  const block = hex(blockNumber)
  const state = reading(token.authorizationState(expected.asset, expected.payer, expected.nonce), block)
  const used = wordOf(await rpc.call(state.method, ...state.params))
  if (used === undefined) return { fate: 'lost' }
  if (used === 0n) return { fate: 'unused' }

  const oldest = await blockAt(rpc, blockNumber, sinceMs / 1000 - lookBackSeconds)
  let to = blockNumber
  for (let i = 0; i < maxQueries && to >= oldest; i++, to -= blocksPerQuery) {
    const from = Math.max(oldest, to - blocksPerQuery + 1)
    const logs = (await rpc.call('eth_getLogs', {
      address: expected.asset,
      fromBlock: hex(from),
      toBlock: hex(to),
      topics: [
        [topics.authorizationUsed, topics.authorizationCanceled],
        `0x${addressWord(expected.payer)}`,
        expected.nonce,
      ],
    })) as readonly LogEntry[]
    // A silent token may say it more than once; the one that moved the money counts.
    for (const log of logs) {
      const answer = await rpc.call('eth_getTransactionReceipt', log.transactionHash)
      const receipt = readReceipt(answer, log.transactionHash)
      // The node that had the log a moment ago lacks its receipt: it is not the one to judge by.
      if (receipt === undefined) return { fate: 'lost' }
      if (provesTransfer(receipt, expected)) return { fate: 'paid', transaction: log.transactionHash }
    }
    if (logs[0] !== undefined) return { fate: 'spent', transaction: logs[0].transactionHash }
  }
  return { fate: 'lost' }
}

/** A block not later than this time, by halving; every block of a short chain is cheap to ask for. */
async function blockAt(rpc: Rpc, newest: number, seconds: number): Promise<number> {
  let low = 0
  let high = newest
  while (high - low > blocksPerQuery) {
    const middle = Math.floor((low + high) / 2)
    const block = (await rpc.call('eth_getBlockByNumber', hex(middle), false)) as { timestamp: string } | null
    // A pruned node has no such block; whatever it does have is later.
    if (block === null || Number(quantity(block.timestamp)) <= seconds) low = middle
    else high = middle
  }
  return low
}

const hex = (value: number): string => `0x${value.toString(16)}`
