import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { closeInStages, discard } from '../core/http/lingeringClose.ts'
import type { AccessLog } from './call.ts'

/**
 * Maximum requests of one connection that may wait behind the response to an earlier request. Node starts every request of one
 * packet at once, which can be a thousand.
 */
export const MAX_WAITING_REQUESTS = 16

/**
 * The connections of the public listener. Tracks which connections are ending, and which responses wait behind another response.
 */
export class Connections {
  readonly #accessLog: AccessLog
  /** All connections, including upgraded ones, which the HTTP server itself no longer closes. */
  readonly #open = new Set<Socket>()
  /**
   * Connections whose last response is known, each with that response's request. The gateway reads nothing after that request. The
   * value is null if the rest of the request is not read either.
   */
  readonly #ending = new Map<Duplex, IncomingMessage | null>()
  /** Responses of each connection that wait behind an earlier response. */
  readonly #behind = new WeakMap<Duplex, Set<ServerResponse>>()
  /** Handshakes that arrived while their connection still had to send a response. */
  readonly #early = new WeakSet<IncomingMessage>()

  constructor(accessLog: AccessLog) {
    this.#accessLog = accessLog
  }

  add(socket: Socket): void {
    this.#open.add(socket)
    socket.once('close', () => {
      this.#open.delete(socket)
      this.#ending.delete(socket)
    })
  }

  /**
   * Whether a connection may be upgraded. An upgraded connection is written to at once, and those bytes would come before or inside
   * a pending response.
   *
   * @returns true if the connection has no pending response
   */
  mayUpgrade(req: IncomingMessage): boolean {
    if (responseUnderWay(req.socket) === undefined) return true
    this.#early.add(req)
    return false
  }

  /** Whether a request is a handshake that {@link mayUpgrade} has refused. */
  isEarlyHandshake(req: IncomingMessage): boolean {
    return this.#early.has(req)
  }

  /**
   * Makes a response wait behind an earlier response of its connection.
   *
   * @returns false if the maximum number of responses already waits
   */
  mayWait(socket: Duplex, res: ServerResponse): boolean {
    const waiting = this.#behind.get(socket) ?? this.#waitOn(socket)
    if (waiting.size === MAX_WAITING_REQUESTS) return false
    waiting.add(res)
    // Node gives the connection to the response when all earlier responses are written.
    res.once('socket', () => waiting.delete(res))
    return true
  }

  #waitOn(socket: Duplex): Set<ServerResponse> {
    const waiting = new Set<ServerResponse>()
    this.#behind.set(socket, waiting)
    // When a connection closes, Node notifies only the response that currently has it, and after CONNECT none at all.
    socket.once('close', () => {
      for (const res of waiting) {
        res.destroy()
        res.emit('close')
      }
    })
    return waiting
  }

  /**
   * Ends a connection after a response. The gateway reads no later calls, because they would be charged but might get no response.
   */
  endAfter(socket: Socket, last: ServerResponse): void {
    this.#ending.set(socket, last.req)
    dropRest(socket)
    last.shouldKeepAlive = false
    // If the caller keeps sending, the gateway keeps reading for a while, because a reset would discard the part of the response
    // that the caller has not read.
    socket.destroySoon = () => closeInStages(socket)
  }

  /**
   * Stops reading a connection after a request that can be read in two ways, because the gateway cannot know where the next request
   * begins.
   */
  endRefused(req: IncomingMessage, res: ServerResponse): void {
    const { socket } = req
    res.shouldKeepAlive = false
    if (socket.destroyed) return
    // The response ends the connection, but earlier responses may delay it for a long time.
    const mustWait = res.socket === null
    this.#ending.set(socket, mustWait ? null : req)
    dropRest(socket)
    if (mustWait) discard(socket)
  }

  /** Ends each connection after its pending response, unless that response has begun or another response waits behind it. */
  endAll(): void {
    for (const socket of this.#open) {
      const underWay = responseUnderWay(socket)
      const isLast = underWay?.headersSent === false && !this.#behind.get(socket)?.size
      if (isLast) this.endAfter(socket, underWay)
    }
  }

  destroyAll(): void {
    for (const socket of this.#open) socket.destroy()
  }

  /**
   * Closes idle connections. Node also considers a connection idle while its caller has not read the last response yet, and would
   * discard the rest of that response. This method keeps such connections open.
   */
  closeIdle(close: Server['closeIdleConnections']): void {
    const unread = [...this.#open].filter((socket) => socket.writableLength > 0 || this.#ending.has(socket))
    for (const socket of unread) socket.destroy = () => socket
    close()
    for (const socket of unread) delete (socket as Partial<Socket>).destroy
  }

  /**
   * Handles input that Node's parser cannot read. If it follows whole requests, the gateway ignores the input, because an error
   * would lose the pending responses to those requests.
   */
  broken(error: Error, socket: Duplex): void {
    const last = this.#ending.get(socket)
    const isBehindLast = last === null || last?.complete
    // If the socket is not readable, its caller has ended the connection.
    if (socket.readable && isBehindLast) discardRest(socket as Socket)
    else if (socket.readable && isBetweenRequests(socket as Socket)) endBehindResponses(socket as Socket)
    else refuseBrokenRequest(error, socket, this.#accessLog)
  }
}

/**
 * Sends the error for a request that Node's parser could not read, or that arrived too slowly, and closes the connection. It writes
 * to the socket, because Node has created no request object.
 */
function refuseBrokenRequest(error: Error & { code?: string }, socket: Duplex, accessLog: AccessLog): void {
  // While a response is pending, the caller would read this error as that response or as a part of it. The gateway then only cuts
  // the connection.
  const underWay = responseUnderWay(socket)
  const isOwed = underWay !== undefined && (underWay.headersSent || underWay.req.complete)
  if (!socket.writable || error.code === 'ECONNRESET' || isOwed) {
    socket.destroy()
    return
  }
  refuseSocket(socket, accessLog, ...meaningOf(error.code))
}

/** The response that a connection sends next. A response exists from the arrival of its request's head until it is written. */
export function responseUnderWay(socket: Duplex): ServerResponse | undefined {
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined
}

/** Writes one error response to a socket outside of Node's HTTP server, and closes the socket. */
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
  // The cast is safe, because the listener accepts only TCP connections.
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

/** Parts of Node's connection that its types lack: the parser, and the callback that the parser calls with each head. */
interface Connection extends Socket {
  parser?: { incoming: IncomingMessage | null; onIncoming: () => number } | null
}

/**
 * Drops the input that arrives on a connection after its last request. The packet that Node is reading may contain thousands of
 * requests, and Node would keep each of them, with a response, until the last response is written. This function replaces a
 * callback of Node's parser, so that such a flood costs no memory (test/afterLastRequest.test.ts).
 */
function dropRest(socket: Socket): void {
  const { parser } = socket as Connection
  if (parser === undefined || parser === null) return
  let isFirst = true
  parser.onIncoming = () => {
    // Without `incoming`, the parser drops the body too, and treats a handshake as an ordinary request.
    parser.incoming = null
    if (isFirst) {
      isFirst = false
      discardRest(socket)
    }
    return 0
  }
}

/** Gives no more input to the parser, and ends the connection after its pending responses. */
function discardRest(socket: Socket): void {
  discard(socket)
  // If the caller keeps sending, the gateway keeps reading for a while, because a reset would discard the part of the response that
  // the caller has not read.
  socket.destroySoon = () => closeInStages(socket)
}

/**
 * Whether a connection has pending responses, and the parser has read each request completely. The next input then belongs to no
 * request.
 */
function isBetweenRequests(socket: Socket): boolean {
  const incoming = (socket as Connection).parser?.incoming
  return responseUnderWay(socket) !== undefined && incoming?.complete === true
}

/** Drops further input of a connection, and ends the connection after all its pending responses. */
function endBehindResponses(socket: Socket): void {
  discardRest(socket)
  const endOrWait = () => {
    const owed = responseUnderWay(socket)
    if (owed === undefined) socket.destroySoon()
    else owed.once('finish', endOrWait)
  }
  endOrWait()
}
