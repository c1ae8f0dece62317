import { STATUS_CODES } from 'node:http'
import { type ErrorDetail, isTollgateError, type TollgateError } from '../errors/error.ts'
import type { Log } from '../ports/log.ts'

/** A response that ends a call, with a status, headers and a complete body. Calls share replies, so a reply is never changed. */
export interface Reply {
  readonly status: number
  /** Names and values in turn, including `Content-Length`. */
  readonly headers: readonly string[]
  /** The body. A string is latin1, with one character per byte. A list is written piece by piece. Null for no body. */
  readonly body: string | Uint8Array | readonly Uint8Array[] | null
}

/** The reply of a hook that has written the response itself, such as a stream or a tunnel, so that nothing is left to send. */
export const handled: Reply = Object.freeze({ status: 0, headers: [], body: null })

/** A JSON response. It is made for an error or once per link, so its speed does not matter. */
export function jsonReply(status: number, value: unknown, headers: readonly string[] = []): Reply {
  const body = Buffer.from(JSON.stringify(value))
  return {
    status,
    headers: [
      'Content-Type',
      'application/json; charset=utf-8',
      'Content-Length',
      String(body.length),
      ...headers,
    ],
    body,
  }
}

interface ErrorReply {
  readonly reply: Reply
  readonly code: string
}

/**
 * The response to an error, `{success:false, error:{code, message, requestId, retryable, …}}` (marketplace interface, section 7).
 * An unexpected error becomes a plain 500, and its cause is logged.
 *
 * @param requestId id of the request, which the transport also sends in `X-Request-Id`
 */
export function errorReply(error: unknown, log: Log, requestId: string): ErrorReply {
  if (!isTollgateError(error)) {
    log.error({ err: error, requestId }, 'unexpected error')
    const body = { code: 'internal_error', message: oops, requestId, retryable: true }
    return make('internal_error', 500, { success: false, error: body })
  }
  const { code, status, retryAfterSeconds } = error
  const headers = retryAfterSeconds === undefined ? [] : ['Retry-After', String(retryAfterSeconds)]
  return make(code, status, envelopeOf(error, requestId), headers)
}

/** The body of an error response, which may have fields besides `error`. */
export interface ErrorEnvelope {
  readonly success: false
  readonly error: {
    readonly code: string
    readonly message: string
    readonly requestId: string
    readonly reason?: string
    readonly details?: readonly ErrorDetail[]
    readonly retryable: boolean
  }
}

export function envelopeOf(error: TollgateError, requestId: string): ErrorEnvelope {
  const { code, message, retryable, details, reason, extra } = error
  return {
    success: false,
    error: { code, message, requestId, ...(reason && { reason }), ...(details && { details }), retryable },
    ...extra,
  }
}

const oops = 'Something went wrong in the gateway. Report the requestId to the operator.'

function make(
  code: string,
  status: number,
  envelope: ErrorEnvelope,
  headers: readonly string[] = [],
): ErrorReply {
  return {
    code,
    reply: jsonReply(status, envelope, ['Cache-Control', 'no-store', ...headers]),
  }
}

/**
 * A reply whose head is already text, so that the transport neither assembles the head nor checks its characters. The creator of
 * the reply guarantees the headers. There is a `Content-Length`, no header of the connection (`Date`, `Connection`, `Keep-Alive`,
 * `Transfer-Encoding`), and no forbidden character (RFC 9110, sections 5.1 and 5.5).
 */
export class PreparedReply implements Reply {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: string
  /** Status line and headers, each with its line end. */
  readonly head: string

  /** @param body latin1, with one character per byte */
  constructor(status: number, headers: readonly string[], body: string) {
    this.status = status
    this.headers = headers
    this.body = body
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`
    for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
    this.head = head
  }
}
