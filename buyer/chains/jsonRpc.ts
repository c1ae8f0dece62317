import type { NetworkId } from '../../core/domain/network.ts'
import { askByFetch } from '../../core/rpc/askByFetch.ts'
import { createRpc } from '../../core/rpc/rpc.ts'
import { RpcRefused, RpcUnreachable } from '../../core/rpc/rpcError.ts'
import { servedChain } from '../../core/rpc/servedChain.ts'

const CALL_TIMEOUT_MS = 15_000

/**
 * Calls one JSON-RPC 2.0 method; the result is not checked.
 *
 * @throws {RpcUnreachable} also when the node refuses the call. Messages hold nothing of the URL but its host.
 */
export type JsonRpc = (method: string, params: readonly unknown[], signal: AbortSignal) => Promise<unknown>

/**
 * Makes a JSON-RPC client for one node; 15 s a call at most.
 *
 * @param rpcUrl http(s) address of the node
 * @param network the chain that it must serve to be believed; not asked for when left out
 */
export function createJsonRpc(rpcUrl: string, network?: NetworkId): JsonRpc {
  const chain = network === undefined ? {} : { chain: servedChain(network) }
  const rpc = createRpc({ urls: [rpcUrl], ask: askByFetch(fetch), timeoutMs: CALL_TIMEOUT_MS, ...chain })
  return async (method, params, signal) => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)])
    try {
      return await rpc.callWithin(limit, method, ...params)
    } catch (error) {
      if (!(error instanceof RpcRefused)) throw error
      // The node's own words may be anything.
      throw new RpcUnreachable(`The chain's node refused ${method} (code ${error.code})`, { cause: error })
    }
  }
}

/** @throws {RpcUnreachable} for an answer that has another form than the method's */
export const unexpected = (method: string): RpcUnreachable =>
  new RpcUnreachable(`The chain's node answered ${method} with something else`)

const publicNodes: Readonly<Record<string, string>> = {
  'eip155:8453': 'https://mainnet.base.org',
  'eip155:84532': 'https://sepolia.base.org',
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': 'https://api.mainnet-beta.solana.com',
  'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1': 'https://api.devnet.solana.com',
}

/** The public node of a network, kept by its makers and rate limited; undefined for a network that has none here. */
export const publicRpcUrl = (network: NetworkId): string | undefined => publicNodes[network]
