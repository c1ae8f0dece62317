import type { Socket } from 'node:net'
import type { UpstreamHandler, UpstreamRequest } from '../../../core/ports/egress.ts'
import { EgressError } from '../egressError.ts'
import type { OriginPool } from '../poolRegistry.ts'
import { type ConnectionOwner, Http1Connection, Http1Exchange } from './connection.ts'
import { isPlain } from './head.ts'

export interface Http1PoolOptions {
  /** `host` or `host:port`, as the Host header says it. */
  readonly host: string
  /** How long an unused connection is kept, in milliseconds. */
  readonly keepAliveTimeoutMs: number
  readonly maxHeaderBytes: number
  /** An unused connection does not keep the process from ending. */
  readonly isUnheld?: true
  /** Opens a connection: TLS done, no delay set. @param onBytes see `SocketTarget` */
  open(onBytes: (bytes: Buffer) => void): Promise<Socket>
}

/**
 * Keep-alive connections to one origin for plain HTTP/1.1 requests: heads as flat arrays in both directions, no streams,
 * no timer per request. A free call costs 23 µs of CPU with it, 26 with undici (bench/free.ts). Never repeats a request.
 */
export class Http1Pool implements ConnectionOwner {
  readonly hostLine: string
  readonly maxHeaderBytes: number
  readonly #options: Http1PoolOptions
  readonly #all = new Set<Http1Connection>()
  /** The one used last is used next, so that a quiet time closes the others. */
  readonly #idle: Http1Connection[] = []
  readonly #waiting: Http1Exchange[] = []
  #opening = 0
  #closedBy: Error | null = null
  #whenClosed: (() => void) | null = null
  #timer: NodeJS.Timeout | undefined
  #timerAtMs = Number.POSITIVE_INFINITY

  constructor(options: Http1PoolOptions) {
    this.#options = options
    this.hostLine = `Host: ${options.host}\r\n`
    this.maxHeaderBytes = options.maxHeaderBytes
  }

  /** @returns false when the request waits for a connection. */
  dispatch(request: UpstreamRequest, handler: UpstreamHandler): boolean {
    const exchange = new Http1Exchange(request, handler)
    if (this.#closedBy !== null) {
      handler.onResponseError(null, this.#closedBy)
      return true
    }
    const connection = this.#takeIdle()
    if (connection !== undefined) {
      if (this.#options.isUnheld) connection.hold(true)
      connection.send(exchange)
      return true
    }
    this.#waiting.push(exchange)
    this.#openMore()
    return false
  }

  /** Lets requests under way and waiting ones end, then closes. */
  close(): Promise<void> {
    this.#closedBy ??= closed()
    this.dropIdle()
    return this.#gone()
  }

  /** Fails everything with `error` and closes. */
  destroy(error: Error): Promise<void> {
    this.#closedBy ??= error
    for (const { handler } of this.#waiting.splice(0)) handler.onResponseError(null, error)
    for (const connection of [...this.#all]) {
      connection.abort(error)
      connection.destroy()
    }
    return this.#gone()
  }

  /** Ends the connections that nothing is asked over: where one was found broken, the others most likely are as well. */
  dropIdle(): void {
    for (const connection of this.#idle.splice(0)) connection.destroy()
  }

  onIdle(connection: Http1Connection): void {
    if (!connection.isUsable) return connection.destroy()
    const next = this.#waiting.shift()
    if (next !== undefined) return connection.send(next)
    if (this.#closedBy !== null) return connection.destroy()
    this.#idle.push(connection)
    if (this.#options.isUnheld) connection.hold(false)
    connection.rest(this.#options.keepAliveTimeoutMs)
  }

  onGone(connection: Http1Connection): void {
    this.#all.delete(connection)
    const at = this.#idle.indexOf(connection)
    if (at !== -1) this.#idle.splice(at, 1)
    this.#openMore()
    this.#endIfEmpty()
  }

  /** One timer watches every connection; it is set anew only for an earlier end, which the usual limits never bring. */
  onDeadline(atMs: number): void {
    if (atMs >= this.#timerAtMs) return
    clearTimeout(this.#timer)
    this.#timerAtMs = atMs
    this.#timer = setTimeout(() => this.#watch(), Math.max(1, atMs - performance.now())).unref()
  }

  #watch(): void {
    const nowMs = performance.now()
    this.#timerAtMs = Number.POSITIVE_INFINITY
    let nextMs = Number.POSITIVE_INFINITY
    for (const connection of [...this.#all]) {
      if (connection.deadlineMs <= nowMs) connection.timeOut()
      else nextMs = Math.min(nextMs, connection.deadlineMs)
    }
    if (nextMs !== Number.POSITIVE_INFINITY) this.onDeadline(nextMs)
  }

  #takeIdle(): Http1Connection | undefined {
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      if (connection.isUsable) return connection
      connection.destroy()
    }
  }

  /** As many connections as there are requests waiting. */
  #openMore(): void {
    while (this.#waiting.length > this.#opening) {
      this.#opening++
      let connection: Http1Connection | undefined
      // Before it is asked for anything: taken for the first answer, as whatever comes then.
      let early: Buffer | undefined
      const onBytes = (bytes: Buffer) => {
        if (connection !== undefined) connection.take(bytes)
        else early = early === undefined ? Buffer.from(bytes) : Buffer.concat([early, bytes])
      }
      this.#options.open(onBytes).then(
        (socket) => {
          connection = this.#opened(socket)
          if (early !== undefined) connection.take(early)
        },
        (error: Error) => this.#notOpened(error),
      )
    }
  }

  #opened(socket: Socket): Http1Connection {
    this.#opening--
    const connection = new Http1Connection(socket, this)
    this.#all.add(connection)
    this.onIdle(connection)
    return connection
  }

  /** Each attempt was for one of those that wait: the first of them has waited longest. */
  #notOpened(error: Error): void {
    this.#opening--
    this.#waiting.shift()?.handler.onResponseError(null, error)
    this.#openMore()
    this.#endIfEmpty()
  }

  #gone(): Promise<void> {
    return new Promise((resolve) => {
      const earlier = this.#whenClosed
      this.#whenClosed = () => {
        earlier?.()
        resolve()
      }
      this.#endIfEmpty()
    })
  }

  #endIfEmpty(): void {
    if (this.#closedBy === null || this.#all.size + this.#opening + this.#waiting.length > 0) return
    clearTimeout(this.#timer)
    this.#whenClosed?.()
    this.#whenClosed = null
  }
}

const closed = () => new EgressError('EGRESS_CLOSED', 'The way out is closed.')

/**
 * The connections to one seller: plain requests go over an {@link Http1Pool}, which costs less
 * than undici (bench/free.ts); upgrades and streamed bodies over an undici pool, made when the first one comes. As
 * many connections are opened as there are requests at once: whoever makes them counts.
 */
export class SellerPool implements OriginPool {
  readonly #plain: Http1Pool
  readonly #makeOther: () => OriginPool
  #other: OriginPool | undefined

  constructor(options: Http1PoolOptions, makeOther: () => OriginPool) {
    this.#plain = new Http1Pool(options)
    this.#makeOther = makeOther
  }

  dispatch(request: UpstreamRequest, handler: UpstreamHandler): boolean {
    if (isPlain(request)) return this.#plain.dispatch(request, handler)
    this.#other ??= this.#makeOther()
    return this.#other.dispatch(request, handler)
  }

  async close(): Promise<void> {
    await Promise.all([this.#plain.close(), this.#other?.close()])
  }

  async destroy(error: Error): Promise<void> {
    await Promise.all([this.#plain.destroy(error), this.#other?.destroy(error)])
  }
}
