import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ErrorCode } from '../../core/errors/codes.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Log } from '../../core/ports/log.ts'

/**
 * Both sides of the gateway use the ports, so ports throw the codes of paid calls. Here these codes are replaced by the codes
 * of the marketplace API.
 */
const upperCase: Partial<Record<ErrorCode, ErrorCode>> = {
  store_unavailable: 'STORE_UNAVAILABLE',
  link_not_found: 'LINK_NOT_FOUND',
  bad_request: 'VALIDATION_ERROR',
  payload_too_large: 'PAYLOAD_TOO_LARGE',
  internal_error: 'INTERNAL_ERROR',
}

/** Sends every error in the envelope. An unexpected error becomes a plain 500 whose id is in the log. */
export function responseErrors(app: FastifyInstance, log: Log): void {
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply, log))
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0]!.slice(0, 200)
    const error = new TollgateError(
      'NOT_FOUND',
      `No route matches ${request.method} ${path}. See /docs/api for the routes.`,
    )
    return sendError(error, request, reply, log)
  })
}

/** Sends one error as `{success:false,error:{…}}`, with its extra fields beside `error` and its headers. */
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

/** Converts any thrown value to an error of this API. */
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
  // These are the framework's own errors. A status below 500 means a client's mistake.
  const { statusCode } = thrown as { statusCode?: unknown }
  const options = { cause: thrown }
  switch (statusCode) {
    case 413:
      return new TollgateError('PAYLOAD_TOO_LARGE', 'Expected a body of at most 1 MB.', options)
    case 415:
      return new TollgateError('UNSUPPORTED_MEDIA_TYPE', undefined, options)
    case 404:
    case 414:
      return new TollgateError('NOT_FOUND', undefined, options)
    case 400:
      return new TollgateError(
        'VALIDATION_ERROR',
        'The request cannot be parsed. Check its path, length and body.',
        options,
      )
    default:
      return new TollgateError(
        'INTERNAL_ERROR',
        'Something went wrong. Report the requestId to the operator.',
        options,
      )
  }
}
