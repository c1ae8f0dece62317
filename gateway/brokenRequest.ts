import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { closeInStages } from '../core/http/lingeringClose.ts'
import type { AccessLog } from './accessLog.ts'

/**
 * Answers what node's parser could not read, or what came too slowly, and closes. Written by hand, because there is no
 * request object to answer.
 */
export function refuseBrokenRequest(
  error: Error & { code?: string },
  socket: Duplex,
  accessLog: AccessLog,
): void {
  // Bytes in the middle of an answer would pass for a part of it, and ahead of it, behind a request that was whole, for all of it:
  // then the connection is only cut.
  const underWay = answerUnderWay(socket)
  const isOwed = underWay !== undefined && (underWay.headersSent || underWay.req.complete)
  if (!socket.writable || error.code === 'ECONNRESET' || isOwed) {
    socket.destroy()
    return
  }
  refuseSocket(socket, accessLog, ...meaningOf(error.code))
}

/** The answer that a connection owes next, from its request's head until it is written. */
export function answerUnderWay(socket: Duplex): ServerResponse | undefined {
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined
}

/** Writes one error answer on a connection that speaks HTTP no more, and closes it. */
export function refuseSocket(
  socket: Duplex,
  accessLog: AccessLog,
  status: string,
  code: string,
  message: string,
): void {
  const retryable = status.startsWith('408')
  const requestId = randomUUID()
  const body = JSON.stringify({ success: false, error: { code, message, requestId, retryable } })
  socket.write(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\nCache-Control: no-store\r\nX-Request-Id: ${requestId}\r\nConnection: close\r\n\r\n${body}`,
    'latin1',
  )
  accessLog.unrouted({ requestId, status: Number(status.slice(0, 3)), code })
  // A TCP connection; node's types allow for streams of a caller's own.
  closeInStages(socket as Socket)
}

function meaningOf(code: string | undefined): [status: string, code: string, message: string] {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return ['431 Request Header Fields Too Large', 'bad_request', 'The head of the request is too large.']
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return ['408 Request Timeout', 'request_timeout', 'The request did not arrive in time.']
    default:
      return ['400 Bad Request', 'bad_request', 'Expected a well-formed HTTP/1.1 request.']
  }
}
