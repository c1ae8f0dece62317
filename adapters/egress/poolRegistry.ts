import type { UpstreamHandler, UpstreamPool, UpstreamRequest } from '../../core/ports/egress.ts'

/** The connections to one origin, whoever makes them. */
export interface OriginPool {
  dispatch(request: UpstreamRequest, handler: UpstreamHandler): boolean
  /** Lets running requests end. */
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
  /** Pools kept at once; beyond it the longest unused go first. Pools in use are never closed. */
  readonly maxPoolCount: number
  /** How long a pool that nobody refers to is kept, in milliseconds. */
  readonly idlePoolMs: number
  /** As holders are told it; see {@link UpstreamPool.connections}. */
  readonly connections: number
  readonly createPool: (origin: string) => OriginPool
}

/** Shares one pool an origin, counts who refers to it, and closes it some time after the last one left. */
export class PoolRegistry {
  readonly #options: PoolRegistryOptions
  readonly #entries = new Map<string, Entry>()
  /** Origins nobody refers to, longest first. */
  readonly #idle = new Set<string>()

  constructor(options: PoolRegistryOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#entries.size
  }

  /** @param origin in canonical form, as `URL.origin` gives it */
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

  /** Ends every connection; requests under way fail. */
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
    // It never fails; undici types it as a promise all the same.
    void entry.pool.close()
  }
}

/** One holder's reference. On the hot path it adds one call, nothing else. */
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
