import { randomUUID } from 'node:crypto'
import { isTollgateError } from '../errors/error.ts'
import { jsonReply, type Reply } from '../plugin/reply.ts'
import type { Log } from '../ports/log.ts'

export interface ErrorReply {
  readonly reply: Reply
  readonly code: string
}

/**
 * The answer to whatever was thrown: `{success:false, error:{code, message, requestId, retryable, …}}` (marketplace
 * interface, section 7). What was not thrown on purpose becomes a plain 500 with an id that is also in the log.
 */
export function errorReply(error: unknown, log: Log): ErrorReply {
  const requestId = randomUUID()
  if (!isTollgateError(error)) {
    log.error({ err: error, requestId }, 'unexpected error')
    return make(
      'internal_error',
      500,
      { code: 'internal_error', message: oops, requestId, retryable: true },
      requestId,
    )
  }
  const { code, status, message, retryable, details, reason, extra, retryAfterSeconds } = error
  const body = { code, message, requestId, ...(reason && { reason }), ...(details && { details }), retryable }
  const headers = retryAfterSeconds === undefined ? [] : ['Retry-After', String(retryAfterSeconds)]
  return make(code, status, body, requestId, headers, extra)
}

const oops = 'Something went wrong in the gateway. Report the requestId to the operator.'

function make(
  code: string,
  status: number,
  error: object,
  requestId: string,
  headers: readonly string[] = [],
  extra: object = {},
): ErrorReply {
  const value = { success: false, error, ...extra }
  return {
    code,
    reply: jsonReply(status, value, ['Cache-Control', 'no-store', 'X-Request-Id', requestId, ...headers]),
  }
}
