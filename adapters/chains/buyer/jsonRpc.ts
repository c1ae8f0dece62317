import { parseStrictJson } from '../../../core/x402/strictJson.ts'

/** Longest answer of a node that is read: the largest transaction's receipt is far below. */
const MAX_ANSWER_BYTES = 4_000_000
const CALL_TIMEOUT_MS = 15_000

/** Calls one JSON-RPC 2.0 method; the result is not checked. @throws {RpcFailure} */
export type JsonRpc = (method: string, params: readonly unknown[], signal: AbortSignal) => Promise<unknown>

/** A node did not answer, or refused a call. Never carries the URL, which may hold an access key. */
export class RpcFailure extends Error {
  override readonly name = 'RpcFailure'
}

/**
 * Makes a JSON-RPC client for one node: bounded answers, no redirects, 15 s a call at most, no retries of its own.
 *
 * @param rpcUrl http(s) address of the node
 */
export function createJsonRpc(rpcUrl: string): JsonRpc {
  let id = 0
  return async (method, params, signal) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params })
    let text: string
    try {
      const response = await fetch(rpcUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
        redirect: 'error',
        signal: AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]),
      })
      text = await readBounded(response)
    } catch (error) {
      const why = signal.aborted ? 'there was no time left' : reasonOf(error)
      throw new RpcFailure(`The chain's node did not answer ${method}: ${why}.`, { cause: error })
    }
    const parsed = parseStrictJson(text)
    const answer = parsed.ok
      ? (parsed.value as { result?: unknown; error?: { code?: unknown } } | null)
      : null
    if (answer === null || typeof answer !== 'object') {
      throw new RpcFailure(`The chain's node answered ${method} with something that is not JSON-RPC.`)
    }
    if (answer.error !== undefined && answer.error !== null) {
      throw new RpcFailure(
        `The chain's node refused ${method} (code ${String(answer.error.code).slice(0, 12)}).`,
      )
    }
    return answer.result
  }
}

async function readBounded(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > MAX_ANSWER_BYTES) throw new Error(`more than ${MAX_ANSWER_BYTES} bytes came`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function reasonOf(error: unknown): string {
  const cause = (error as { cause?: { code?: unknown } }).cause
  if (typeof cause?.code === 'string') return cause.code
  return error instanceof DOMException ? error.name : (error as Error).message
}
