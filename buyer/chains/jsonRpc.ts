import type { NetworkId } from '../../core/domain/network.ts'
import { RpcRefused, RpcUnreachable } from '../../core/rpc/post.ts'
import { requestByFetch } from '../../core/rpc/requestByFetch.ts'
import { createRpc, servedChain } from '../../core/rpc/rpc.ts'

const CALL_TIMEOUT_MS = 15_000

/**
 * Calls one JSON-RPC 2.0 method. The result is not validated.
 *
 * @throws {RpcUnreachable} also if the node rejects the call. Messages contain only the host of the URL
 */
export type JsonRpc = (method: string, params: readonly unknown[], signal: AbortSignal) => Promise<unknown>

/**
 * Creates a JSON-RPC client for one node, with a timeout of 15 s per call.
 *
 * @param rpcUrl http(s) URL of the node
 * @param network the chain that the node must serve. If absent, the chain is not checked
 */
export function createJsonRpc(rpcUrl: string, network?: NetworkId): JsonRpc {
  const chain = network === undefined ? {} : { chain: servedChain(network) }
  const rpc = createRpc({
    urls: [rpcUrl],
    sendRequest: requestByFetch(fetch),
    timeoutMs: CALL_TIMEOUT_MS,
    ...chain,
  })
  return async (method, params, signal) => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)])
    try {
      return await rpc.callWithin(limit, method, ...params)
    } catch (error) {
      if (!(error instanceof RpcRefused)) throw error
      // The node's own message is left out, because it is untrusted.
      throw new RpcUnreachable(`The chain's node rejected ${method} (code ${error.code})`, { cause: error })
    }
  }
}

/** The error for a result that does not have the method's form. */
export const unexpected = (method: string): RpcUnreachable =>
  new RpcUnreachable(`The chain's node returned an unexpected result for ${method}`)

const publicNodes: Readonly<Record<string, string>> = {
  'eip155:8453': 'https://mainnet.base.org',
  'eip155:84532': 'https://sepolia.base.org',
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': 'https://api.mainnet-beta.solana.com',
  'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1': 'https://api.devnet.solana.com',
}

/** The network's public node, which is run by the makers of the network and rate limited. Undefined if the network has none. */
export const publicRpcUrl = (network: NetworkId): string | undefined => publicNodes[network]
