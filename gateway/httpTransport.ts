import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { Pieces } from '../core/http/body.ts'
import { PreparedReply, type Reply } from '../core/http/replies.ts'
import type { Transport, Upgrade } from '../core/plugin/transport.ts'

/** One call over HTTP. It uses Node's request and response without copying them. */
export class HttpTransport implements Transport {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly upgrade: Upgrade | null
  readonly requestId: string
  /**
   * True while the caller waits for `100 Continue` before it sends its body (RFC 9110, section 10.1.1). The gateway sends `100
   * Continue` when a plugin reads the body.
   */
  owesContinue = false
  readonly isTruncated = false
  #isCutOff = false

  /** @param res for an upgrade, a response that has no connection yet */
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
    // Node's header names are in lower case.
    if (value === undefined) {
      const lower = name.toLowerCase()
      return lower === name ? undefined : this.header(lower)
    }
    // Only `Set-Cookie` is a list, and a request has no such header. Inherited properties are not headers either.
    return Object.hasOwn(headers, name) ? value.join(', ') : undefined
  }

  get body(): IncomingMessage {
    if (this.owesContinue) {
      this.owesContinue = false
      this.res.writeContinue()
    }
    return this.req
  }

  /** Whether the connection is closed. After an upgrade this is the upgraded socket, which no longer belongs to the response. */
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
    if (piece.length < MIN_IN_PAGE || piece.length > PAGE_BYTES) return this.res.write(Buffer.from(piece))
    const page = pages.pop() ?? Buffer.allocUnsafeSlow(PAGE_BYTES)
    page.set(piece)
    // If a write has failed, the page is not reused, because the network may still read it.
    return this.res.write(page.subarray(0, piece.length), (error) => {
      if (!error && pages.length < MAX_PAGES) pages.push(page)
    })
  }

  onDrain(listener: () => void): void {
    this.res.once('drain', listener)
  }

  end(last: Uint8Array | null = null): void {
    endWith(this.res, last)
  }

  /**
   * Breaks off the response. With HTTP/1.0 an ordinary end of the connection means a complete response, so this method resets the
   * connection.
   */
  cutOff(): void {
    if (!this.isClosed) this.#isCutOff = true
    if (this.upgrade !== null) this.upgrade.socket.destroy()
    else if (this.req.httpVersionMinor === 0) this.req.socket.resetAndDestroy()
    // The response waits behind an earlier response. Destroying only this response would take effect after the caller has read the
    // earlier one.
    else if (this.res.socket === null && !this.res.writableFinished) this.req.socket.destroy()
    else this.res.destroy()
  }

  limitIdle(timeoutMs: number): void {
    // The socket is the request's, because the response has none while it waits behind an earlier response.
    this.req.socket.setTimeout(timeoutMs)
  }
}

/**
 * Size of each reused page of memory in which large pieces wait for the network, in bytes. Memory outside of V8's heap for each new
 * piece would make V8 collect its whole heap too often (bench/free.ts).
 */
const PAGE_BYTES = 65_536
const MIN_IN_PAGE = 32_768
const MAX_PAGES = 64
const pages: Buffer[] = []

/**
 * Maximum size of a body that is copied into a string, in bytes. One write then sends head and body, which is cheaper
 * (bench/paid.ts).
 */
const SMALL_BYTES = 16_384

/**
 * Writes a whole reply, with head and body in one piece.
 *
 * @param extra further headers besides the reply's own, as a flat list. Null for none
 * @returns false if the caller has disconnected
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

/** The fields in which Node keeps a response's head until it writes the first piece of the body. Node's types lack them. */
interface Head {
  _header: string | null
  _headerSent: boolean
  readonly _keepAliveTimeout: number
}

/**
 * Writes a prepared head into Node's private fields. Node itself would assemble the head for each response and check each of its
 * characters, which is a tenth of the cost of a 402 (bench/steps.ts, `challenge_vs_bare_node_http`).
 *
 * @returns false, and does nothing, if the connection ends with this response, Node adds headers of its own, or Node stores heads
 *   differently
 */
function writePrepared(res: ServerResponse, { status, head }: PreparedReply, requestId: string): boolean {
  const inside = res as unknown as Head
  if (inside._header !== null || !res.shouldKeepAlive || !(inside._keepAliveTimeout >= 1_000)) return false
  // Another library, such as a tracer, has set headers.
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

/** Ends a response with its body, or the rest of its body. */
export function endWith(res: ServerResponse, body: Reply['body']): void {
  if (body === null) res.end()
  else if (typeof body === 'string') res.end(body, 'latin1')
  else if (!(body instanceof Uint8Array)) endInPieces(res, body)
  else if (body.length > SMALL_BYTES) res.end(body)
  else res.end(Buffer.from(body.buffer, body.byteOffset, body.length).toString('latin1'), 'latin1')
}

/** Sends the pieces one by one, because joining large pieces would copy them (bench/steps.ts). */
function endInPieces(res: ServerResponse, pieces: readonly Uint8Array[]): void {
  res.cork()
  for (const piece of pieces) res.write(piece)
  res.end()
  res.uncork()
}

/**
 * Sends the response to an upgrade request that the gateway did not upgrade, and closes the connection.
 *
 * @returns false if the caller has disconnected
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

/**
 * Maximum bytes that a caller may send before the response to its handshake. A correct client sends none (RFC 6455, section 4.1).
 */
const MAX_EARLY_BYTES = 65_536

/**
 * A caller's connection that waits for the response to its handshake. The gateway reads the connection meanwhile, because otherwise
 * it would not notice that the caller has disconnected, and the call would keep its slot at the seller.
 */
export class WaitingUpgrade implements Upgrade {
  readonly socket: Duplex
  readonly #early = new Pieces()
  readonly #read = (piece: Buffer) => {
    if (this.#early.bytes + piece.length > MAX_EARLY_BYTES) this.socket.destroy()
    else this.#early.push(piece)
  }
  /** WebSockets have no half-open state, so the connection ends when the caller ends its side. */
  readonly #leave = () => void this.socket.destroy()

  /** @param head bytes that were read past the request's head */
  constructor(socket: Duplex, head: Buffer) {
    this.socket = socket
    socket.on('data', this.#read).on('end', this.#leave)
    if (head.length > 0) this.#read(head)
  }

  take(): Buffer {
    this.socket.off('data', this.#read).off('end', this.#leave).pause()
    return this.#early.join()
  }
}
