import type { Socket } from 'node:net'
import type { UpstreamHandler, UpstreamPool, UpstreamRequest } from '../../../core/ports/egress.ts'
import { EgressError } from '../errors.ts'
import { type ConnectionOwner, Http1Connection, Http1Exchange } from './connection.ts'
import { isPlain } from './message.ts'

export interface Http1PoolOptions {
  /** `host` or `host:port`, as in the Host header. */
  readonly host: string
  /** How long an unused connection stays open, in ms. */
  readonly keepAliveTimeoutMs: number
  readonly maxHeaderBytes: number
  /** If true, unused connections do not keep the process running. */
  readonly isUnheld?: true
  /** Opens a connection, with TLS established and TCP_NODELAY set. @param onBytes see `SocketTarget` */
  open(onBytes: (bytes: Buffer) => void): Promise<Socket>
}

/**
 * Keep-alive connections to one origin for plain HTTP/1.1 requests. Heads are flat arrays in both directions, and a request needs
 * no stream and no timer. A free call costs 23 µs of CPU with this pool and 26 µs with undici (bench/free.ts). The pool never
 * repeats a request.
 */
export class Http1Pool implements ConnectionOwner {
  readonly hostLine: string
  readonly maxHeaderBytes: number
  readonly #options: Http1PoolOptions
  readonly #all = new Set<Http1Connection>()
  /** The next request uses the last used connection, so that the others close in quiet times. */
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

  /** @returns false if the request waits for a connection */
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

  /** Waits until all requests have ended, then closes. */
  close(): Promise<void> {
    this.#closedBy ??= closed()
    this.dropIdle()
    return this.#gone()
  }

  /** Fails all requests with `error` and closes. */
  destroy(error: Error): Promise<void> {
    this.#closedBy ??= error
    for (const { handler } of this.#waiting.splice(0)) handler.onResponseError(null, error)
    for (const connection of [...this.#all]) {
      connection.abort(error)
      connection.destroy()
    }
    return this.#gone()
  }

  /** Closes the idle connections. If one of them is broken, the others most likely are as well. */
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

  /** One timer watches every connection. It is set again only for an earlier deadline, which the usual limits never cause. */
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

  /** Opens as many connections as there are requests waiting. */
  #openMore(): void {
    while (this.#waiting.length > this.#opening) {
      this.#opening++
      let connection: Http1Connection | undefined
      // Bytes before the first request count as unexpected bytes of a response.
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

  /** Fails the request that has waited longest, because each attempt to connect was for one waiting request. */
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

const closed = () => new EgressError('EGRESS_CLOSED', 'The egress is closed.')

/**
 * The connections to one seller. Plain requests use an {@link Http1Pool}, which costs less than undici (bench/free.ts). Upgrades
 * and streamed bodies use an undici pool, which the first of them creates. Each concurrent request has a connection, so the caller
 * limits the requests.
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

/** A pool of connections to one origin. */
export interface OriginPool {
  dispatch(request: UpstreamRequest, handler: UpstreamHandler): boolean
  /** Waits for running requests to end. */
  close(): Promise<void>
  /** Fails running requests with the error. */
  destroy(error: Error): Promise<void>
}

interface Entry {
  readonly pool: OriginPool
  references: number
  idleTimer: NodeJS.Timeout | undefined
}

export interface PoolRegistryOptions {
  /**
   * Maximum number of pools that stay open. Above it, the registry closes the pools that were unused for longest. It never closes
   * pools in use.
   */
  readonly maxPoolCount: number
  /** How long an unused pool stays open, in ms. */
  readonly idlePoolMs: number
  /** See {@link UpstreamPool.connections}. */
  readonly connections: number
  readonly createPool: (origin: string) => OriginPool
}

/**
 * Shares one pool per origin and counts its references. The registry closes the pool some time after the last reference was
 * released.
 */
export class PoolRegistry {
  readonly #options: PoolRegistryOptions
  readonly #entries = new Map<string, Entry>()
  /** Origins without a reference, longest unused first. */
  readonly #idle = new Set<string>()

  constructor(options: PoolRegistryOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#entries.size
  }

  /** @param origin in the form of `URL.origin` */
  acquire(origin: string): UpstreamPool {
    let entry = this.#entries.get(origin)
    if (entry === undefined) {
      entry = { pool: this.#options.createPool(origin), references: 0, idleTimer: undefined }
      this.#entries.set(origin, entry)
      this.#evictIdle()
    }
    entry.references++
    clearTimeout(entry.idleTimer)
    this.#idle.delete(origin)
    return new PoolReference(entry.pool, this.#options.connections, () => this.#release(origin, entry))
  }

  /** Closes every connection, so requests in flight fail. */
  async close(error: Error): Promise<void> {
    const entries = [...this.#entries.values()]
    this.#entries.clear()
    this.#idle.clear()
    await Promise.all(
      entries.map(({ pool, idleTimer }) => {
        clearTimeout(idleTimer)
        return pool.destroy(error)
      }),
    )
  }

  #release(origin: string, entry: Entry): void {
    entry.references--
    if (entry.references > 0 || this.#entries.get(origin) !== entry) return
    this.#idle.add(origin)
    entry.idleTimer = setTimeout(() => this.#drop(origin), this.#options.idlePoolMs).unref()
    this.#evictIdle()
  }

  #evictIdle(): void {
    for (const origin of this.#idle) {
      if (this.#entries.size <= this.#options.maxPoolCount) return
      this.#drop(origin)
    }
  }

  #drop(origin: string): void {
    const entry = this.#entries.get(origin)!
    clearTimeout(entry.idleTimer)
    this.#idle.delete(origin)
    this.#entries.delete(origin)
    // The promise is ignored, because it never rejects.
    void entry.pool.close()
  }
}

/** A user's reference to a pool. On the hot path it adds only one call. */
class PoolReference implements UpstreamPool {
  readonly connections: number
  readonly #pool: OriginPool
  #onRelease: (() => void) | undefined

  constructor(pool: OriginPool, connections: number, onRelease: () => void) {
    this.#pool = pool
    this.connections = connections
    this.#onRelease = onRelease
  }

  dispatch(options: UpstreamRequest, handler: UpstreamHandler): boolean {
    return this.#pool.dispatch(options, handler)
  }

  release(): void {
    this.#onRelease?.()
    this.#onRelease = undefined
  }
}
