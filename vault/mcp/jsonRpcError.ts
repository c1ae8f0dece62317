import type { ServerResponse } from 'node:http'
import { ErrorCode } from '@modelcontextprotocol/sdk/types.js'
import { isVaultError } from '../errors/error.ts'
import { errorBody } from '../errors/errorBody.ts'

/** Answers a POST, GET or DELETE that never became a request of its session. `data` carries the vault's own error. */
export function sendRpcError(
  res: ServerResponse,
  status: number,
  error: unknown,
  code: number = codeOf(error),
): void {
  const retryAfter = isVaultError(error) ? error.retryAfterSeconds : undefined
  const body = rpcErrorBody(error, code, null)
  // What was not read is not read any more.
  if (status === 413) res.shouldKeepAlive = false
  res.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(retryAfter !== undefined && { 'retry-after': String(retryAfter) }),
  })
  res.end(body)
}

/** An error as the message that answers a request. @param id null where the request's own could not be read */
export function rpcErrorBody(error: unknown, code: number, id: string | number | null): string {
  const { error: shown } = errorBody(error)
  return JSON.stringify({ jsonrpc: '2.0', error: { code, message: shown.message, data: shown }, id })
}

/** JSON-RPC 2.0, section 5.1; -32000 and -32001 as the protocol's own SDK uses them. */
function codeOf(error: unknown): number {
  if (!isVaultError(error)) return ErrorCode.InternalError
  return error.code === 'NOT_FOUND' ? -32_001 : -32_000
}
