import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { RpcRefused } from '../../../../core/rpc/rpcError.ts'

/** How a node took a signed transaction. */
export type BroadcastResult =
  /** The node has it; `isKnown` when it had it before. */
  | { readonly taken: 'yes'; readonly isKnown: boolean }
  /** The account's nonce is used: this transaction is mined, or another one is in its place for good. */
  | { readonly taken: 'nonce_used'; readonly message: string }
  /** Another transaction of this nonce waits in the pool and pays as much. */
  | { readonly taken: 'nonce_contested'; readonly message: string }
  /** The node does not want it now: fees too low, no funds, pool full. The bytes stay valid. */
  | { readonly taken: 'refused'; readonly message: string }
  /** No answer: it may have arrived or not. */
  | { readonly taken: 'unknown'; readonly message: string }

/**
 * Sends signed bytes. Sending them again is always safe: the same bytes are the same transaction. Never rejects.
 * The words are those of geth, nethermind, erigon, besu, reth and anvil.
 */
export async function broadcast(rpc: Rpc, bytes: string): Promise<BroadcastResult> {
  try {
    await rpc.call('eth_sendRawTransaction', bytes)
    return { taken: 'yes', isKnown: false }
  } catch (error) {
    if (error instanceof RpcRefused) return readRefusal(error)
    return { taken: 'unknown', message: error instanceof Error ? error.message : 'failed' }
  }
}

/** What a node's refusal of a signed transaction means for it. */
export function readRefusal({ message }: RpcRefused): BroadcastResult {
  if (/already known|already imported|known transaction|alreadyknown|already exists/i.test(message)) {
    return { taken: 'yes', isKnown: true }
  }
  if (/nonce too low|oldnonce|nonce is too low|nonce has already been used/i.test(message)) {
    return { taken: 'nonce_used', message }
  }
  if (/replacement|underpriced/i.test(message)) return { taken: 'nonce_contested', message }
  return { taken: 'refused', message }
}
