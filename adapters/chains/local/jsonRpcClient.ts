import { LocalChainError } from './localChainError.ts'

/** Calls one JSON-RPC method and returns its result; the caller names the type, which is not checked. */
export type JsonRpcClient = <T>(method: string, ...params: unknown[]) => Promise<T>

/**
 * Makes a JSON-RPC 2.0 client for one HTTP endpoint.
 *
 * @throws {LocalChainError} `local_chain_rpc_error` from a call that the node refuses, with its code and message.
 */
export function createJsonRpcClient(url: string): JsonRpcClient {
  let id = 0
  return async <T>(method: string, ...params: unknown[]): Promise<T> => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }),
    })
    const answer = (await response.json()) as { result?: T; error?: { code: number; message: string } }
    if (answer.error !== undefined) {
      throw new LocalChainError(
        'local_chain_rpc_error',
        `${method} was refused by the local node: ${answer.error.message} (code ${answer.error.code})`,
      )
    }
    return answer.result as T
  }
}
