import { askByFetch } from '../core/rpc/askByFetch.ts'
import { createRpc } from '../core/rpc/rpc.ts'
import { RpcRefused } from '../core/rpc/rpcError.ts'
import { LocalChainError } from './localChainError.ts'

/** A local chain answers at once, unless it mines thousands of blocks. */
const CALL_TIMEOUT_MS = 60_000

/** Calls one JSON-RPC method and returns its result; the caller names the type, which is not checked. */
export type JsonRpcClient = <T>(method: string, ...params: unknown[]) => Promise<T>

/**
 * Makes a JSON-RPC 2.0 client for a local chain.
 *
 * @throws {LocalChainError} `local_chain_rpc_error` from a call that the node refuses, with its code and message.
 */
export function createJsonRpcClient(url: string): JsonRpcClient {
  const rpc = createRpc({ urls: [url], ask: askByFetch(fetch), timeoutMs: CALL_TIMEOUT_MS })
  return async <T>(method: string, ...params: unknown[]): Promise<T> => {
    try {
      return (await rpc.call(method, ...params)) as T
    } catch (error) {
      if (!(error instanceof RpcRefused)) throw error
      throw new LocalChainError(
        'local_chain_rpc_error',
        `${method} was refused by the local node: ${error.message} (code ${error.code})`,
        { cause: error },
      )
    }
  }
}
