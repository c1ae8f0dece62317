import { systemClock } from '../../../../core/ports/clock.ts'
import { silentLog } from '../../../../core/ports/log.ts'
import type { RpcRefused, RpcUnreachable } from '../../../../core/rpc/post.ts'
import { createRpc, type RpcCall, type RpcOptions, servedChain } from '../../../../core/rpc/rpc.ts'
import { callNode } from '../../nodeHttp.ts'
import type { ProofsOptions } from '../../proofs.ts'

export type Commitment = 'confirmed' | 'finalized'

interface SolanaRpcOptions extends Pick<RpcOptions, 'urls' | 'timeoutMs' | 'clock' | 'log'> {
  /** First 32 characters of the cluster's genesis hash, as in its CAIP-2 id. The client does not use nodes of other clusters. */
  readonly genesis: string
}

/**
 * JSON-RPC over HTTP to one cluster, through the first of several nodes that responds and serves that cluster. A call may reach
 * several nodes. This is safe because reads change nothing and the same signed transaction lands only once.
 */
export interface Rpc {
  /**
   * @throws {RpcRefused} the node's JSON-RPC error
   * @throws {RpcUnreachable} when no node returns a valid response
   */
  call<T>(method: string, ...params: unknown[]): Promise<T>
  /**
   * Makes independent calls, in as few requests as the node accepts. Results are in order, and a call that fails does not affect
   * the others. Never rejects.
   */
  many<T>(calls: readonly RpcCall[]): Promise<Answer<T>[]>
}

/** The result of one call among many. */
type Answer<T> =
  | { readonly ok: true; readonly result: T }
  | { readonly ok: false; readonly error: RpcRefused | RpcUnreachable }

/** The result of most read methods: a value, and the slot at which it was read. */
export interface WithContext<T> {
  readonly context: { readonly slot: number }
  readonly value: T
}

/** Creates the client. It sends no request before the first call. */
export function createSolanaRpc({ genesis, ...options }: SolanaRpcOptions): Rpc {
  const rpc = createRpc({
    ...options,
    sendRequest: callNode,
    // A repeated call is safe, because reads change nothing and the same signed bytes are the same transaction.
    isRepeatable: true,
    // This request is not part of a batch, because some providers do not accept batches.
    chain: servedChain(`solana:${genesis}`),
  })
  return {
    call: <T>(method: string, ...params: unknown[]) => rpc.call(method, ...params) as Promise<T>,
    many: <T>(calls: readonly RpcCall[]) => rpc.many(calls) as Promise<Answer<T>[]>,
  }
}

export interface SolanaProofsOptions extends ProofsOptions {
  /** The commitment at which a transfer counts, the same as for settlers. Default `confirmed`. */
  readonly commitment?: Commitment
}

/** Returns the options with their defaults, one client of all nodes, and one client per node. Proofs use all of these. */
export function openNodes(options: SolanaProofsOptions) {
  const { network, rpcUrls, commitment = 'confirmed', rpcTimeoutMs = 10_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const genesis = network.slice('solana:'.length)
  const clientOf = (urls: readonly string[]) =>
    createSolanaRpc({ urls, genesis, timeoutMs: rpcTimeoutMs, clock, log })
  const each = rpcUrls.map((url) => clientOf([url]))
  return { network, commitment, log, rpc: clientOf(rpcUrls), each }
}

/** The error codes of Solana's JSON-RPC and of JSON-RPC 2.0 that the gateway handles. */
export const rpcCodes = {
  preflightFailure: -32002,
  methodNotFound: -32601,
  invalidParams: -32602,
} as const
