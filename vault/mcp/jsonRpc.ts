import type { ServerResponse } from 'node:http'
import { Transform, type TransformCallback } from 'node:stream'
import { ErrorCode } from '@modelcontextprotocol/sdk/types.js'
import { parseStrictJson } from '../../core/x402/strictJson.ts'
import { errorBody, isVaultError, VaultError } from '../errors/error.ts'
import { bodyText, MAX_BODY_BYTES } from '../loopback/callers.ts'

/** Maximum bytes of a too long message that are read to find its id. The error response needs the id. */
const MAX_READ_BYTES = 16 * MAX_BODY_BYTES
const LINE_END = 10

/**
 * Passes on the lines of standard input that are unambiguous JSON in UTF-8 and no longer than a body over HTTP. Any other line
 * gets an error response. The SDK would end the session on a line that is too long, replace invalid UTF-8, and leave the client
 * without a response.
 *
 * @param respond writes one message to the client
 */
export function stdioMessages(respond: (message: string) => void): Transform {
  let held: Buffer[] = []
  let bytes = 0

  function take(piece: Buffer): void {
    bytes += piece.length
    if (bytes <= MAX_READ_BYTES) held.push(piece)
    else held = []
  }

  /** The accepted line. Undefined if it was refused. */
  function finish(): Buffer | undefined {
    const line = held.length === 1 ? held[0]! : Buffer.concat(held)
    const isTooLong = bytes > MAX_BODY_BYTES
    held = []
    bytes = 0
    try {
      if (isTooLong) throw new VaultError('PAYLOAD_TOO_LARGE')
      const text = bodyText(line)
      if (text.trim() === '') return undefined
      readMessageText(text)
      return line
    } catch (error) {
      const code = isTooLong ? ErrorCode.InvalidRequest : ErrorCode.ParseError
      respond(`${rpcErrorBody(error, code, idOf(line))}\n`)
      return undefined
    }
  }

  return new Transform({
    transform(chunk: Buffer, _encoding, done: TransformCallback) {
      let from = 0
      for (let at = chunk.indexOf(LINE_END); at !== -1; at = chunk.indexOf(LINE_END, from)) {
        take(chunk.subarray(from, at))
        from = at + 1
        const line = finish()
        if (line !== undefined) this.push(Buffer.concat([line, Buffer.of(LINE_END)]))
      }
      if (from < chunk.length) take(chunk.subarray(from))
      done()
    },
  })
}

/** The id of a refused request, if it is readable. */
function idOf(line: Buffer): string | number | null {
  try {
    const { id } = JSON.parse(line.toString('utf8')) as { id?: unknown }
    return typeof id === 'string' || typeof id === 'number' ? id : null
  } catch {
    return null
  }
}

/** The depth limit of an HTTP body, plus the levels that JSON-RPC puts around a tool's arguments. */
const MAX_DEPTH = 36

/** Parses the JSON of one message, over HTTP or on one line. @throws `VALIDATION_ERROR` for invalid or ambiguous JSON */
export function readMessageText(text: string): unknown {
  const parsed = parseStrictJson(text, { maxDepth: MAX_DEPTH })
  if (parsed.ok) return parsed.value
  throw new VaultError('VALIDATION_ERROR', parsed.message)
}

/** Responds to a POST, GET or DELETE that did not reach a session. `data` contains the vault's own error. */
export function sendRpcError(
  res: ServerResponse,
  status: number,
  error: unknown,
  code: number = codeOf(error),
): void {
  const retryAfter = isVaultError(error) ? error.retryAfterSeconds : undefined
  const body = rpcErrorBody(error, code, null)
  // The connection closes, because the rest of the body is not read.
  if (status === 413) res.shouldKeepAlive = false
  res.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(retryAfter !== undefined && { 'retry-after': String(retryAfter) }),
  })
  res.end(body)
}

/** The error response to a request. @param id null if the request's id could not be read */
function rpcErrorBody(error: unknown, code: number, id: string | number | null): string {
  const { error: shown } = errorBody(error)
  return JSON.stringify({ jsonrpc: '2.0', error: { code, message: shown.message, data: shown }, id })
}

/** The code of an error: those of JSON-RPC 2.0, section 5.1, and -32000 and -32001 as the protocol's SDK uses them. */
function codeOf(error: unknown): number {
  if (!isVaultError(error)) return ErrorCode.InternalError
  return error.code === 'NOT_FOUND' ? -32_001 : -32_000
}
