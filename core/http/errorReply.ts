import { isTollgateError } from '../errors/error.ts'
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
    return make('internal_error', 500, { code: 'internal_error', message: oops, requestId, retryable: true })
  }
  const { code, status, message, retryable, details, reason, extra, retryAfterSeconds } = error
  const body = { code, message, requestId, ...(reason && { reason }), ...(details && { details }), retryable }
  const headers = retryAfterSeconds === undefined ? [] : ['Retry-After', String(retryAfterSeconds)]
  return make(code, status, body, headers, extra)
}

const oops = 'Something went wrong in the gateway. Report the requestId to the operator.'

function make(
  code: string,
  status: number,
  error: object,
  headers: readonly string[] = [],
  extra: object = {},
): ErrorReply {
  const value = { success: false, error, ...extra }
  return {
    code,
    reply: jsonReply(status, value, ['Cache-Control', 'no-store', ...headers]),
  }
}
