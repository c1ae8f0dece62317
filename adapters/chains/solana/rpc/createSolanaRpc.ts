import { createRpc, type RpcCall, type RpcOptions } from '../../../../core/rpc/rpc.ts'
import type { RpcRefused, RpcUnreachable } from '../../../../core/rpc/rpcError.ts'
import { servedChain } from '../../../../core/rpc/servedChain.ts'
import { askNode } from '../../askNode.ts'

export interface SolanaRpcOptions extends Pick<RpcOptions, 'urls' | 'timeoutMs' | 'clock' | 'log'> {
  /** First 32 characters of the cluster's genesis hash, as in its CAIP-2 id. A node of another cluster is not believed. */
  readonly genesis: string
}

/**
 * JSON-RPC over HTTP to one cluster, through the first of several nodes that answers and serves that cluster. A call may
 * reach more than one node: reads change nothing, and the same signed transaction lands once.
 */
export interface Rpc {
  /** @throws {RpcRefused} the node's JSON-RPC error. @throws {RpcUnreachable} when no node answers properly. */
  call<T>(method: string, ...params: unknown[]): Promise<T>
  /**
   * Calls that have nothing to do with each other, in as few requests as the node takes; answers in order. One that gets
   * none spoils none of the others. Never rejects.
   */
  many<T>(calls: readonly RpcCall[]): Promise<Answer<T>[]>
}

/** What came of one call among many. */
export type Answer<T> =
  | { readonly ok: true; readonly result: T }
  | { readonly ok: false; readonly error: RpcRefused | RpcUnreachable }

/** What most read methods answer: a value, and the slot that it was read at. */
export interface WithContext<T> {
  readonly context: { readonly slot: number }
  readonly value: T
}

/** Makes the client; nothing is sent before the first call. */
export function createSolanaRpc({ genesis, ...options }: SolanaRpcOptions): Rpc {
  const rpc = createRpc({
    ...options,
    ask: askNode,
    // Reads change nothing, and the same signed bytes are the same transaction.
    isRepeatable: true,
    // Asked for on its own: not every provider takes batches.
    chain: servedChain(`solana:${genesis}`),
  })
  return {
    call: <T>(method: string, ...params: unknown[]) => rpc.call(method, ...params) as Promise<T>,
    many: <T>(calls: readonly RpcCall[]) => rpc.many(calls) as Promise<Answer<T>[]>,
  }
}
