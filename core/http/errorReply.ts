import { type ErrorDetail, isTollgateError, type TollgateError } from '../errors/error.ts'
import { jsonReply, type Reply } from '../plugin/reply.ts'
import type { Log } from '../ports/log.ts'

export interface ErrorReply {
  readonly reply: Reply
  readonly code: string
}

/**
 * The answer to whatever was thrown: `{success:false, error:{code, message, requestId, retryable, …}}` (marketplace
 * interface, section 7). What was not thrown on purpose becomes a plain 500, and its cause is in the log.
 *
 * @param requestId of the request that is answered; the door says it in `X-Request-Id` as well
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

/** The body of an error answer, with what stands beside `error` in it. */
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
