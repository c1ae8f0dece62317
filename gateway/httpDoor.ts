import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { PreparedReply } from '../core/http/preparedReply.ts'
import type { Door, Upgrade } from '../core/plugin/door.ts'
import type { Reply } from '../core/plugin/reply.ts'

/** A call that came over HTTP: node's request and response as they are, nothing copied. One for each request. */
export class HttpDoor implements Door {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly upgrade: Upgrade | null
  readonly requestId: string
  /** The caller sends its body once it is told to (RFC 9110, section 10.1.1): when somebody reads it. */
  owesContinue = false
  #isCutOff = false

  /** @param res of an upgrade: one that has no connection yet */
  constructor(req: IncomingMessage, res: ServerResponse, upgrade: Upgrade | null, requestId: string) {
    this.requestId = requestId
    this.req = req
    this.res = res
    this.upgrade = upgrade
  }

  get method(): string {
    return this.req.method!
  }

  get rawHeaders(): readonly string[] {
    return this.req.rawHeaders
  }

  header(name: string): string | undefined {
    const { headers } = this.req
    const value = headers[name]
    if (typeof value === 'string') return value
    // Node's names are in lower case.
    if (value === undefined) {
      const lower = name.toLowerCase()
      return lower === name ? undefined : this.header(lower)
    }
    // Only `Set-Cookie` is a list, and that is no header of requests. What every object has is none either.
    return Object.hasOwn(headers, name) ? value.join(', ') : undefined
  }

  get body(): IncomingMessage {
    if (this.owesContinue) {
      this.owesContinue = false
      this.res.writeContinue()
    }
    return this.req
  }

  /** An upgraded connection is not the response's any more. */
  get isClosed(): boolean {
    return this.upgrade === null ? this.res.destroyed : this.upgrade.socket.destroyed
  }

  onClose(listener: () => void): void {
    ;(this.upgrade === null ? this.res : this.upgrade.socket).once('close', listener)
  }

  get hasLeft(): boolean {
    return this.isClosed && !this.isSent && !this.#isCutOff
  }

  get hasBegun(): boolean {
    return this.res.headersSent
  }

  get hasEnded(): boolean {
    return this.res.writableEnded
  }

  get isSent(): boolean {
    return this.res.writableFinished
  }

  send(reply: Reply, extra: readonly string[] | null): boolean {
    return this.upgrade === null
      ? send(this.res, reply, extra, this.requestId)
      : sendOnSocket(this.res, this.upgrade.socket, reply, extra, this.requestId)
  }

  begin(status: number, headers: string[]): void {
    headers.push('X-Request-Id', this.requestId)
    this.res.writeHead(status, headers)
  }

  write(piece: Uint8Array): boolean {
    if (piece.length < LEAST_IN_PAGE || piece.length > PAGE_BYTES) return this.res.write(Buffer.from(piece))
    const page = pages.pop() ?? Buffer.allocUnsafeSlow(PAGE_BYTES)
    page.set(piece)
    // What failed may still be on its way to the network.
    return this.res.write(page.subarray(0, piece.length), (error) => {
      if (!error && pages.length < MOST_PAGES) pages.push(page)
    })
  }

  onDrain(listener: () => void): void {
    this.res.once('drain', listener)
  }

  end(last: Uint8Array | null = null): void {
    endWith(this.res, last)
  }

  /** To HTTP/1.0 the end of the connection says that the answer is whole, so that only a reset says that it is not. */
  cutOff(): void {
    if (!this.isClosed) this.#isCutOff = true
    if (this.upgrade !== null) this.upgrade.socket.destroy()
    else if (this.req.httpVersionMinor === 0) this.req.socket.resetAndDestroy()
    // It waits behind another answer of its connection, and would be broken off only when that one has been read.
    else if (this.res.socket === null && !this.res.writableFinished) this.req.socket.destroy()
    else this.res.destroy()
  }

  limitIdle(timeoutMs: number): void {
    // The response has none while it waits behind another one.
    this.req.socket.setTimeout(timeoutMs)
  }
}

/**
 * Large pieces wait for the network in memory that is used again: new memory for each, outside of V8's heap, makes V8 look through
 * all of its heap for what is free (bench/free.ts).
 */
const PAGE_BYTES = 65_536
const LEAST_IN_PAGE = 32_768
const MOST_PAGES = 64
const pages: Buffer[] = []

/** Up to here a body is copied into a string: with the head it is one write then, which is cheaper (bench/paid.ts). */
const SMALL_BYTES = 16_384

/**
 * Writes a whole reply: head and body in one piece.
 *
 * @param extra flat headers beside the reply's own; null for none
 * @returns false when nobody is there to read it any more
 */
export function send(
  res: ServerResponse,
  reply: Reply,
  extra: readonly string[] | null,
  requestId: string,
): boolean {
  if (res.headersSent || res.destroyed) return false
  const hasHead = extra === null && reply instanceof PreparedReply && writePrepared(res, reply, requestId)
  if (!hasHead) {
    const headers = extra === null ? [...reply.headers] : [...reply.headers, ...extra]
    headers.push('X-Request-Id', requestId)
    res.writeHead(reply.status, headers)
  }
  endWith(res, reply.body)
  return true
}

/** What node has of an answer's head until it puts it before the first piece of the body; in none of its types. */
interface Head {
  _header: string | null
  _headerSent: boolean
  readonly _keepAliveTimeout: number
}

/**
 * Gives node a head that is made already: by itself it puts one together for each answer and looks at each of its characters, which is a
 * tenth of what a 402 costs.
 *
 * @returns false where the connection ends with this answer, node has headers of its own for it, or keeps heads otherwise: nothing is
 *   done then
 */
function writePrepared(res: ServerResponse, { status, head }: PreparedReply, requestId: string): boolean {
  const inside = res as unknown as Head
  if (inside._header !== null || !res.shouldKeepAlive || !(inside._keepAliveTimeout >= 1_000)) return false
  // Such as what somebody who traces calls has set.
  if (res.getHeaderNames().length > 0) return false
  res.statusCode = status
  inside._header = `${head}X-Request-Id: ${requestId}\r\n${dateLine()}${keepAliveLines(inside._keepAliveTimeout)}\r\n`
  inside._headerSent = false
  return true
}

let dateSecond = 0
let date = ''

function dateLine(): string {
  const second = Math.floor(Date.now() / 1_000)
  if (second !== dateSecond) {
    dateSecond = second
    date = `Date: ${new Date(second * 1_000).toUTCString()}\r\n`
  }
  return date
}

let keepAliveMs = 0
let keepAlive = ''

function keepAliveLines(timeoutMs: number): string {
  if (timeoutMs !== keepAliveMs) {
    keepAliveMs = timeoutMs
    keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(timeoutMs / 1_000)}\r\n`
  }
  return keepAlive
}

/** Ends an answer with its body, or what is left of it. */
export function endWith(res: ServerResponse, body: Reply['body']): void {
  if (body === null) res.end()
  else if (typeof body === 'string') res.end(body, 'latin1')
  else if (!(body instanceof Uint8Array)) endInPieces(res, body)
  else if (body.length > SMALL_BYTES) res.end(body)
  else res.end(Buffer.from(body.buffer, body.byteOffset, body.length).toString('latin1'), 'latin1')
}

/** Joining large pieces would copy them (bench/wrap.ts). */
function endInPieces(res: ServerResponse, pieces: readonly Uint8Array[]): void {
  res.cork()
  for (const piece of pieces) res.write(piece)
  res.end()
  res.uncork()
}

/**
 * Answers an upgrade request that was not upgraded, and closes: the connection has no other use.
 *
 * @returns false when nobody is there to read it any more
 */
export function sendOnSocket(
  res: ServerResponse,
  socket: Duplex,
  reply: Reply,
  extra: readonly string[] | null,
  requestId: string,
): boolean {
  if (socket.destroyed) return false
  res.shouldKeepAlive = false
  res.assignSocket(socket as never)
  res.once('finish', () => socket.end(() => socket.destroy()))
  return send(res, reply, extra, requestId)
}
