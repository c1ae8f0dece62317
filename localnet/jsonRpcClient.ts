import { RpcRefused } from '../core/rpc/post.ts'
import { requestByFetch } from '../core/rpc/requestByFetch.ts'
import { createRpc } from '../core/rpc/rpc.ts'

/**
 * A local chain could not start, or rejected a call. Codes:
 *
 * - `local_chain_not_installed`: a development dependency is missing, which the message names.
 * - `local_chain_start_failed`: the node ended or did not respond.
 * - `local_chain_rpc_error`: the node rejected a call.
 */
export class LocalChainError extends Error {
  readonly code: 'local_chain_not_installed' | 'local_chain_start_failed' | 'local_chain_rpc_error'

  constructor(code: LocalChainError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'LocalChainError'
    this.code = code
  }
}

/** Timeout of a call, in ms. A local chain responds at once, unless it mines thousands of blocks. */
const CALL_TIMEOUT_MS = 60_000

/** Calls one JSON-RPC method and returns its result. The caller names the result's type, which is not validated. */
export type JsonRpcClient = <T>(method: string, ...params: unknown[]) => Promise<T>

/**
 * Creates a JSON-RPC 2.0 client for a local chain.
 *
 * @throws {LocalChainError} `local_chain_rpc_error` with the node's code and message if the node rejects a call
 */
export function createJsonRpcClient(url: string): JsonRpcClient {
  const rpc = createRpc({ urls: [url], sendRequest: requestByFetch(fetch), timeoutMs: CALL_TIMEOUT_MS })
  return async <T>(method: string, ...params: unknown[]): Promise<T> => {
    try {
      return (await rpc.call(method, ...params)) as T
    } catch (error) {
      if (!(error instanceof RpcRefused)) throw error
      throw new LocalChainError(
        'local_chain_rpc_error',
        `The local node rejected ${method}: ${error.message} (code ${error.code})`,
        { cause: error },
      )
    }
  }
}
