import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ErrorCode } from '../core/errors/codes.ts'
import { isTollgateError, TollgateError } from '../core/errors/error.ts'
import type { Log } from '../core/ports/log.ts'

/** Ports speak the codes of paid calls where both sides use them; here they get the marketplace's names. */
const upperCase: Partial<Record<ErrorCode, ErrorCode>> = {
  store_unavailable: 'STORE_UNAVAILABLE',
  link_not_found: 'LINK_NOT_FOUND',
  bad_request: 'VALIDATION_ERROR',
  payload_too_large: 'PAYLOAD_TOO_LARGE',
  internal_error: 'INTERNAL_ERROR',
}

/** Answers every error in the envelope. What was not thrown on purpose becomes a plain 500 whose id is in the log. */
export function answerErrors(app: FastifyInstance, log: Log): void {
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply, log))
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0]!.slice(0, 200)
    const error = new TollgateError('NOT_FOUND', `There is nothing at ${request.method} ${path}; see /docs.`)
    return sendError(error, request, reply, log)
  })
}

/** Writes one error as `{success:false,error:{…}}`, with what stands beside `error` and the headers that belong to it. */
export function sendError(
  thrown: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  log: Log,
): FastifyReply {
  const error = toTollgateError(thrown)
  if (error.status >= 500 && error.code !== 'NOT_READY') {
    log.error({ requestId: request.id, err: thrown, route: request.routeOptions.url }, 'request failed')
  }
  if (error.retryAfterSeconds !== undefined) reply.header('retry-after', error.retryAfterSeconds)
  if (error.code === 'UNAUTHORIZED') reply.header('www-authenticate', 'Bearer')
  return reply
    .code(error.status)
    .header('x-request-id', request.id)
    .header('cache-control', 'no-store')
    .type('application/json; charset=utf-8')
    .serializer(JSON.stringify)
    .send(bodyOf(error, request.id))
}

function bodyOf(error: TollgateError, requestId: string): object {
  const isPermanent = error.extra?.['permanent'] === true
  return {
    success: false,
    error: {
      code: error.code,
      message: error.message,
      requestId,
      ...(error.details === undefined ? {} : { details: error.details }),
      retryable: error.retryable && !isPermanent,
    },
    ...error.extra,
  }
}

/** What was thrown, in the codes of this API. */
export function toTollgateError(thrown: unknown): TollgateError {
  if (isTollgateError(thrown)) {
    const code = upperCase[thrown.code]
    if (code === undefined) return thrown
    const { details, retryAfterSeconds } = thrown
    return new TollgateError(code, thrown.message, {
      cause: thrown,
      ...(details && { details }),
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    })
  }
  // The framework's own: it marks what the client did wrong with a status below 500.
  const { statusCode } = thrown as { statusCode?: unknown }
  const options = { cause: thrown }
  switch (statusCode) {
    case 413:
      return new TollgateError('PAYLOAD_TOO_LARGE', 'The body is larger than 1 MB.', options)
    case 415:
      return new TollgateError('UNSUPPORTED_MEDIA_TYPE', undefined, options)
    case 404:
    case 414:
      return new TollgateError('NOT_FOUND', undefined, options)
    case 400:
      return new TollgateError(
        'VALIDATION_ERROR',
        'The request can not be read: check its path, length and body.',
        options,
      )
    default:
      return new TollgateError(
        'INTERNAL_ERROR',
        'Something went wrong; report the requestId to the operator.',
        options,
      )
  }
}
