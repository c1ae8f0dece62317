import type { OnReadOpts, Socket } from 'node:net'
import type { UpstreamController, UpstreamHandler, UpstreamRequest } from '../../../core/ports/egress.ts'
import { EgressError } from '../egressError.ts'
import { MAX_INTERIM, tooManyInterim } from '../interimLimit.ts'
import { ChunkedBody } from './chunkedBody.ts'
import { chunked, readHead, untilClose, writeHead } from './head.ts'

export interface ConnectionOwner {
  readonly hostLine: string
  readonly maxHeaderBytes: number
  /** The answer is whole, and the connection can carry another request. */
  onIdle(connection: Http1Connection): void
  /** The connection is gone, its exchange (if any) was told. */
  onGone(connection: Http1Connection): void
  /** The connection has a new point in time at which it has waited too long. */
  onDeadline(atMs: number): void
}

/** One request on its way: what its handler holds as the controller. */
export class Http1Exchange implements UpstreamController {
  readonly request: UpstreamRequest
  readonly handler: UpstreamHandler
  rawHeaders: readonly string[] | null = null
  /** The connection that carries it; null while it waits, and after its end. */
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
/** One read of an answer. */
const READ_BYTES = 65_536
/**
 * Read into by every connection: what came is taken before another one reads. Not on Windows, where the system fills the memory of each
 * at a time of its own.
 */
const shared = process.platform === 'win32' ? null : Buffer.allocUnsafeSlow(READ_BYTES)

/**
 * A connection to a seller that carries one request after another, one at a time. Whatever comes that was not asked for
 * ends it: bytes behind an answer could be taken for the next one's.
 */
export class Http1Connection {
  /** When its present wait is too long, by `performance.now()`. The owner watches it. */
  deadlineMs = noDeadline
  #exchange: Http1Exchange | null = null
  /** What came of a head that is not whole; null while no head is expected. */
  #head: Buffer | null = null
  /** Bytes of body to come, or how its end is told. */
  #length = 0
  #chunks: ChunkedBody | null = null
  /** Interim answers (1xx) to the present request. */
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
   * The `onread` of a socket, by which it reads into memory that is there already. By itself node makes 64 KB of new memory for each
   * read, outside of V8's heap, and so much of that in a second makes V8 look through all of its heap for what is free (bench/free.ts).
   *
   * @param onBytes is lent what came, for {@link take}: the next bytes are read into the same memory
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

  /** Sends a request. Only for a connection that {@link isUsable}. */
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
    // The handler may have broken off already.
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
    // A buyer who reads slowly is not the seller's fault.
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

  /** Ends what has waited too long. */
  timeOut(): void {
    if (this.#exchange === null) this.destroy()
    else this.#fail(new EgressError('EGRESS_TIMEOUT', 'The answer did not come in time.'))
  }

  /** Waits for another request until then. */
  rest(idleMs: number): void {
    this.#expect(idleMs)
  }

  /** Whether the process stays for it. */
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

  /** What came, also by another way than the socket's `data`. @param bytes lent: somebody else's again when it returns */
  take(bytes: Buffer): void {
    const exchange = this.#exchange
    // Nobody asked: an answer that came on its own may be meant for the next request.
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
        `The head of the answer is larger than ${this.#owner.maxHeaderBytes} bytes.`,
      )
    }
    if (end === -1) {
      this.#head = bytes === chunk ? Buffer.from(chunk) : bytes
      return
    }
    const { request, handler } = exchange
    const head = readHead(bytes.toString('latin1', 0, end), request.method === 'HEAD')
    if (head.status === 101) throw new EgressError('EGRESS_BAD_ANSWER', 'Nobody asked for an upgrade.')
    exchange.rawHeaders = head.rawHeaders
    const isInterim = head.status < 200
    if (isInterim && ++this.#interim > MAX_INTERIM) throw tooManyInterim()
    this.#head = isInterim ? empty : null
    this.#length = head.length
    this.#isKept &&= head.isKept
    this.#chunks = head.length === chunked ? new ChunkedBody() : null
    if (isInterim) this.#expect(request.headersTimeout)
    // A header object is made for those handlers only that take one.
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

  /** @returns whether the exchange goes on. */
  #emit(exchange: Http1Exchange, piece: Buffer): boolean {
    exchange.handler.onResponseData(exchange, piece)
    return this.#exchange === exchange
  }

  #end(exchange: Http1Exchange, hasMore: boolean): void {
    // What is still to be sent of a body that the seller answered without reading it is the next request to it.
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

  /** The seller hung up: the end of a body without a length, and of everything else the failure. */
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
  new EgressError('EGRESS_BROKEN', 'The connection broke before the answer was whole.', { cause })

function headerObject(raw: readonly string[]): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = Object.create(null)
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase()
    const earlier = headers[name]
    headers[name] = earlier === undefined ? raw[i + 1]! : [earlier, raw[i + 1]!].flat()
  }
  return headers
}
