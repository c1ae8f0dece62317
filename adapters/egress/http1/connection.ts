import type { OnReadOpts, Socket } from 'node:net'
import type { UpstreamController, UpstreamHandler, UpstreamRequest } from '../../../core/ports/egress.ts'
import { EgressError } from '../errors.ts'
import { ChunkedBody, chunked, readHead, untilClose, writeHead } from './message.ts'

export interface ConnectionOwner {
  readonly hostLine: string
  readonly maxHeaderBytes: number
  /** The response is complete, and the connection can carry another request. */
  onIdle(connection: Http1Connection): void
  /** The connection is closed, and the handler of its exchange, if any, has been called. */
  onGone(connection: Http1Connection): void
  /** The connection has a new deadline. `atMs` is by `performance.now()`. */
  onDeadline(atMs: number): void
}

/** One request in flight. Its handler gets this object as the controller. */
export class Http1Exchange implements UpstreamController {
  readonly request: UpstreamRequest
  readonly handler: UpstreamHandler
  rawHeaders: readonly string[] | null = null
  /** The connection that carries the request. Null while the request waits and after its end. */
  connection: Http1Connection | null = null

  constructor(request: UpstreamRequest, handler: UpstreamHandler) {
    this.request = request
    this.handler = handler
  }

  pause(): void {
    this.connection?.pause()
  }

  resume(): void {
    this.connection?.resume()
  }

  abort(reason: Error): void {
    this.connection?.abort(reason)
  }
}

const noDeadline = Number.POSITIVE_INFINITY
/** Size of one read of a response. */
const READ_BYTES = 65_536
/**
 * All connections share this memory, because the bytes of one read are used before another connection reads. On Windows they do
 * not, because the system may fill each connection's memory at any time.
 */
const shared = process.platform === 'win32' ? null : Buffer.allocUnsafeSlow(READ_BYTES)

/**
 * A connection to a seller that carries one request at a time. Unexpected bytes close it, because bytes after a response could be
 * mistaken for the next response.
 */
export class Http1Connection {
  /** Deadline of the current wait, by `performance.now()`. The owner closes the connection after it. */
  deadlineMs = noDeadline
  #exchange: Http1Exchange | null = null
  /** The part of a head that has arrived. Null while no head is expected. */
  #head: Buffer | null = null
  /** Bytes of the body still to come, or how the end of the body is marked. */
  #length = 0
  #chunks: ChunkedBody | null = null
  /** Number of interim responses (1xx) to the current request. */
  #interim = 0
  #isKept = true
  #isPaused = false
  readonly #socket: Socket
  readonly #owner: ConnectionOwner

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.#socket = socket
    this.#owner = owner
    socket.on('data', (bytes: Buffer) => this.take(bytes))
    socket.on('end', () => this.#onEnd())
    socket.on('error', (error) => this.#fail(broken(error)))
    socket.on('close', () => {
      this.#fail(broken(undefined))
      owner.onGone(this)
    })
  }

  /**
   * The `onread` option of a socket. With it, the socket reads into existing memory. Otherwise node allocates 64 KB outside of V8's
   * heap for each read, and many of these make V8 collect its whole heap (bench/free.ts).
   *
   * @param onBytes gets the bytes for {@link take}, only for the duration of the call, because the next read overwrites them
   */
  static reading(onBytes: (bytes: Buffer) => void): OnReadOpts {
    return {
      buffer: shared ?? Buffer.allocUnsafeSlow(READ_BYTES),
      callback(count, buffer) {
        onBytes((buffer as Buffer).subarray(0, count))
        return true
      },
    }
  }

  get isUsable(): boolean {
    return this.#exchange === null && !this.#socket.destroyed && this.#socket.writable
  }

  /** Sends a request. The connection must be usable (see {@link isUsable}). */
  send(exchange: Http1Exchange): void {
    const { request, handler } = exchange
    let head: string
    try {
      head = writeHead(request, this.#owner.hostLine)
    } catch (error) {
      handler.onResponseError(null, error as Error)
      this.#release()
      return
    }
    this.#exchange = exchange
    exchange.connection = this
    handler.onRequestStart(exchange)
    // The handler may have aborted already.
    if (this.#exchange !== exchange) return
    this.#head = empty
    this.#interim = 0
    if (request.reset) this.#isKept = false
    this.#expect(request.headersTimeout)
    const body = request.body as Buffer | null
    if (body === null || body.length === 0) {
      this.#socket.write(head, 'latin1')
      return
    }
    this.#socket.cork()
    this.#socket.write(head, 'latin1')
    this.#socket.write(body)
    this.#socket.uncork()
  }

  pause(): void {
    this.#isPaused = true
    // The wait has no deadline here, because the seller is not at fault when a buyer reads slowly.
    this.deadlineMs = noDeadline
    this.#socket.pause()
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    if (this.#exchange !== null) this.#expect(this.#exchange.request.bodyTimeout)
    this.#socket.resume()
  }

  abort(reason: Error): void {
    this.#fail(reason)
  }

  /** Ends a request or an idle connection that has waited too long. */
  timeOut(): void {
    if (this.#exchange === null) this.destroy()
    else this.#fail(new EgressError('EGRESS_TIMEOUT', 'The response did not arrive in time.'))
  }

  /** Waits this long for another request. */
  rest(idleMs: number): void {
    this.#expect(idleMs)
  }

  /** Whether the connection keeps the process running. */
  hold(isHeld: boolean): void {
    if (isHeld) this.#socket.ref()
    else this.#socket.unref()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #expect(waitMs: number): void {
    if (waitMs === 0) {
      this.deadlineMs = noDeadline
      return
    }
    this.deadlineMs = performance.now() + waitMs
    this.#owner.onDeadline(this.deadlineMs)
  }

  /**
   * Handles bytes, from the socket's `data` or from `onread`.
   * @param bytes valid only until this method returns, because the memory is reused
   */
  take(bytes: Buffer): void {
    const exchange = this.#exchange
    // An unrequested response could be mistaken for the response to the next request.
    if (exchange === null) return this.destroy()
    try {
      if (this.#head === null) this.#readBody(exchange, bytes)
      else this.#readHead(exchange, bytes)
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  #readHead(exchange: Http1Exchange, chunk: Buffer): void {
    const bytes = this.#head!.length === 0 ? chunk : Buffer.concat([this.#head!, chunk])
    const end = bytes.indexOf('\r\n\r\n', Math.max(0, this.#head!.length - 3), 'latin1')
    if (end === -1 ? bytes.length > this.#owner.maxHeaderBytes : end > this.#owner.maxHeaderBytes) {
      throw new EgressError(
        'EGRESS_LARGE_HEAD',
        `The head of the response is larger than ${this.#owner.maxHeaderBytes} bytes.`,
      )
    }
    if (end === -1) {
      this.#head = bytes === chunk ? Buffer.from(chunk) : bytes
      return
    }
    const { request, handler } = exchange
    const head = readHead(bytes.toString('latin1', 0, end), request.method === 'HEAD')
    if (head.status === 101)
      throw new EgressError(
        'EGRESS_BAD_ANSWER',
        'Expected no upgrade, because the request did not ask for an upgrade.',
      )
    exchange.rawHeaders = head.rawHeaders
    const isInterim = head.status < 200
    if (isInterim && ++this.#interim > MAX_INTERIM) throw tooManyInterim()
    this.#head = isInterim ? empty : null
    this.#length = head.length
    this.#isKept &&= head.isKept
    this.#chunks = head.length === chunked ? new ChunkedBody() : null
    if (isInterim) this.#expect(request.headersTimeout)
    // Only handlers that accept a header object get one, because creating it takes time.
    const headers = handler.onResponseStart.length > 2 ? headerObject(head.rawHeaders) : noHeaders
    handler.onResponseStart(exchange, head.status, headers)
    if (this.#exchange !== exchange) return
    const rest = end + 4 === bytes.length ? empty : bytes.subarray(end + 4)
    if (!isInterim) this.#readBody(exchange, rest)
    else if (rest.length > 0) this.#readHead(exchange, rest)
  }

  #readBody(exchange: Http1Exchange, bytes: Buffer): void {
    if (this.#chunks !== null) return this.#readChunks(exchange, this.#chunks, bytes)
    const isLast = this.#length !== untilClose && bytes.length >= this.#length
    const piece = isLast && bytes.length > this.#length ? bytes.subarray(0, this.#length) : bytes
    if (piece.length > 0 && !this.#emit(exchange, piece)) return
    if (isLast) return this.#end(exchange, bytes.length > piece.length)
    if (this.#length !== untilClose) this.#length -= piece.length
    this.#expectMore(exchange)
  }

  #readChunks(exchange: Http1Exchange, chunks: ChunkedBody, bytes: Buffer): void {
    const used = chunks.read(bytes, (piece) => void this.#emit(exchange, piece))
    if (this.#exchange !== exchange) return
    if (chunks.isDone) this.#end(exchange, used < bytes.length)
    else this.#expectMore(exchange)
  }

  #expectMore({ request }: Http1Exchange): void {
    if (!this.#isPaused) this.#expect(request.bodyTimeout)
  }

  /** @returns whether the exchange continues */
  #emit(exchange: Http1Exchange, piece: Buffer): boolean {
    exchange.handler.onResponseData(exchange, piece)
    return this.#exchange === exchange
  }

  #end(exchange: Http1Exchange, hasMore: boolean): void {
    // If the seller responded before it read the whole request body, it would parse the rest as the next request. So the connection
    // is closed.
    if (hasMore || this.#socket.writableLength > 0) this.#isKept = false
    this.#exchange = null
    exchange.connection = null
    if (this.#isPaused) {
      this.#isPaused = false
      this.#socket.resume()
    }
    exchange.handler.onResponseEnd(exchange)
    this.#release()
  }

  #release(): void {
    if (this.#isKept) this.#owner.onIdle(this)
    else this.destroy()
  }

  /** Called when the seller closed the connection. This ends a body without a length. Otherwise it is a failure. */
  #onEnd(): void {
    const exchange = this.#exchange
    if (exchange !== null && this.#head === null && this.#length === untilClose) {
      this.#isKept = false
      this.#end(exchange, false)
      return
    }
    this.#fail(broken(undefined))
  }

  #fail(error: Error): void {
    this.#isKept = false
    this.#socket.destroy()
    const exchange = this.#exchange
    if (exchange === null) return
    this.#exchange = null
    exchange.connection = null
    exchange.handler.onResponseError(exchange, error)
  }
}

const empty = Buffer.alloc(0)
const noHeaders = Object.freeze({})

const broken = (cause: unknown) =>
  new EgressError('EGRESS_BROKEN', 'The connection broke before the response was complete.', { cause })

function headerObject(raw: readonly string[]): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = Object.create(null)
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase()
    const earlier = headers[name]
    headers[name] = earlier === undefined ? raw[i + 1]! : [earlier, raw[i + 1]!].flat()
  }
  return headers
}

/**
 * Maximum number of interim responses (1xx) to one request. Servers send one or two. The limit is needed because each costs the
 * gateway as much as a response, and no buyer pays for it.
 */
export const MAX_INTERIM = 10

export const tooManyInterim = () =>
  new EgressError(
    'EGRESS_BAD_ANSWER',
    `Expected the response after at most ${MAX_INTERIM} interim responses.`,
  )
