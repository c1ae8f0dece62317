import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Generation } from '../core/kernel/generation.ts'
import type { Pipeline } from '../core/kernel/pipeline.ts'
import { noLink } from '../core/kernel/prototypeLinks.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Changes } from '../core/ports/store/changes.ts'
import type { Links } from '../core/ports/store/links.ts'

/** The result for an address that no link has. */
export interface NoRoute {
  readonly link: null
  /** The current address of the link that had this address recently. */
  readonly movedTo: { readonly username: string; readonly slug: string } | undefined
}

/** The database queries that the table needs. */
export type Addresses = Pick<Links, 'served' | 'redirectOf'>

/** How long an address without a link is remembered as such, in ms, unless a change notification removes it earlier. */
const MISSING_MS = 10_000
const MAX_MISSING = 10_000
/** Maximum links that are kept compiled. A link with short texts takes about two kilobytes. */
export const MAX_ROUTES = 131_072
/** Maximum characters of the texts of all compiled links. A paid link also stores some of its texts in its prepared 402. */
const MAX_CHARS = 200_000_000
/**
 * Share of its maximum from which the table tracks which routes were called last. Below that share it does not, because tracking
 * touches memory at random places for each call.
 */
const NEARLY_FULL = 7 / 8
/**
 * Minimum size of the table that finds links with one memory access. The size is always a power of two. The size is multiplied by
 * four when more links are known than a quarter of it.
 */
const MIN_NEAR = 256
/** Maximum pipelines that are disposed of in one turn of the event loop, so that a reload does not delay calls. */
const REMOVED_PER_TURN = 25

/**
 * The routes of one generation. The table compiles a route when its link is first called, and drops the route when the link
 * changes. A lookup of a known address is synchronous. The table also remembers addresses without a link, and their redirects.
 */
export class RouteTable {
  /**
   * Routes by a hash of their keys. Text keys would be slower, because V8 looks up each text among all its strings before it looks
   * into the map. If two links have the same hash (one pair in 100,000), the table keeps the one that was called last.
   */
  readonly #routes: LRUCache<number, Pipeline>
  readonly #hashOf: (key: string) => number
  /**
   * Copies of some routes, at an index made of a few bits of the hash. A pair of routes shares two indexes. A lookup takes one
   * memory access. The cache takes five, which are slow if there are very many links.
   */
  #near: (Pipeline | undefined)[] = new Array(MIN_NEAR).fill(undefined)
  readonly #missing = new LRUCache<string, NoRoute>({ max: MAX_MISSING, ttl: MISSING_MS })
  readonly #loading = new Map<string, Promise<Pipeline | NoRoute>>()
  /** The hashes of each seller's routes, so that a change by the seller drops them without a scan of all routes. */
  readonly #bySeller = new Map<string, Set<number>>()
  readonly #unsubscribe: () => void
  readonly #links: Addresses
  readonly #clock: Clock
  readonly #maxRoutes: number
  readonly #generation: Generation
  /** Grows with every change. A result that was read before a change is not kept after the change. */
  #epoch = 0

  #isClosed = false
  /** The pipeline for all deleted links, compiled when it is first needed. */
  #former: Pipeline | null | undefined

  constructor(
    generation: Generation,
    links: Addresses,
    changes: Changes,
    clock: Clock,
    maxRoutes: number,
    hashOf: (key: string) => number,
  ) {
    this.#hashOf = hashOf
    this.#generation = generation
    this.#links = links
    this.#clock = clock
    this.#maxRoutes = maxRoutes
    // A dropped route may still have running calls, which the plugins' `dispose` allows for. `max` is not set, because the cache
    // would at once allocate some MB that most gateways never use.
    this.#routes = new LRUCache({
      maxSize: MAX_CHARS,
      sizeCalculation: charsOf,
      dispose: (route, hash) => this.#dropped(route, hash),
    })
    this.#unsubscribe = changes.subscribe((change) => {
      this.#epoch++
      if (this.#missing.size > 0) this.#missing.clear()
      // A lookup after the change must not share a read that began before the change.
      this.#loading.clear()
      if (change.kind === 'link') this.#routes.delete(this.#hashOf(`${change.username}/${change.slug}`))
      else for (const hash of [...(this.#bySeller.get(change.username) ?? [])]) this.#routes.delete(hash)
    })
  }

  /**
   * The known result for an address. Undefined when the database has to be read.
   * @param key `<seller>/<slug>` as in the address
   */
  lookup(key: string): Pipeline | NoRoute | undefined {
    const routes = this.#routes
    const isNearlyFull =
      routes.size > NEARLY_FULL * this.#maxRoutes || routes.calculatedSize > NEARLY_FULL * MAX_CHARS
    const hash = this.#hashOf(key)
    if (isNearlyFull) {
      const route = routes.get(hash)
      return route !== undefined && route.key === key ? route : this.#missing.get(key)
    }
    const near = this.#near
    const slot = hash & (near.length - 1)
    let route = near[slot]
    if (route !== undefined && route.key === key) return route
    route = near[slot ^ 1]
    if (route !== undefined && route.key === key) return route
    route = routes.peek(hash)
    if (route === undefined || route.key !== key) return this.#missing.get(key)
    near[slot ^ 1] = near[slot]
    near[slot] = route
    return route
  }

  /**
   * Whether the database is already being read for an address. A further lookup of that address shares the read, so it costs
   * nothing.
   */
  isLoading(key: string): boolean {
    return this.#loading.has(key)
  }

  /** Reads an address from the database. Concurrent lookups of the address share one read. */
  load(key: string): Promise<Pipeline | NoRoute> {
    const underWay = this.#loading.get(key)
    if (underWay !== undefined) return underWay
    const loading = this.#load(key).finally(() => {
      if (this.#loading.get(key) === loading) this.#loading.delete(key)
    })
    this.#loading.set(key, loading)
    return loading
  }

  /**
   * The pipeline for a call with a payment to an address that no link has. A link may have had the address when the payment bought
   * the call, which this pipeline finds out from the payment and the request. Null if the gateway accepts no payments.
   */
  get former(): Pipeline | null {
    if (this.#isClosed) return null
    if (this.#former === undefined) {
      const { pipeline, problems, takesNoPayment } = this.#generation.examine(noLink)
      const holds = pipeline !== undefined && problems.length === 0 && !takesNoPayment
      if (!holds) pipeline?.dispose()
      this.#former = holds ? pipeline : null
    }
    return this.#former
  }

  /**
   * Closes the table. A lookup that is still running finds nothing, and its caller queries the next table.
   *
   * @returns when every pipeline is disposed of
   */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#unsubscribe()
    this.#former?.dispose()
    let givenUp = 0
    for (const route of this.#routes.values()) {
      if (givenUp++ % REMOVED_PER_TURN === 0) await nextTurn()
      route.dispose()
    }
  }

  async #load(key: string): Promise<Pipeline | NoRoute> {
    const epoch = this.#epoch
    const slash = key.indexOf('/')
    const [username, slug] = [key.slice(0, slash), key.slice(slash + 1)]
    const link = await this.#links.served(username, slug)
    if (link === undefined) {
      const movedTo = await this.#links.redirectOf(username, slug, this.#clock.now())
      const missing: NoRoute = { link: null, movedTo }
      if (epoch === this.#epoch) this.#missing.set(key, missing)
      return missing
    }
    // The plugins of a closed table may be closed as well, so the table compiles no more links.
    if (this.#isClosed) return { link: null, movedTo: undefined }
    const route = this.#generation.compile(link)
    // Copied, because a slice of the request's target would keep the whole target in memory.
    route.key = Buffer.from(key, 'latin1').toString('latin1')
    if (epoch === this.#epoch) this.#keep(username, route)
    else route.dispose()
    return route
  }

  #keep(username: string, route: Pipeline): void {
    const hash = this.#hashOf(route.key)
    this.#routes.set(hash, route)
    const hashes = this.#bySeller.get(username)
    if (hashes === undefined) this.#bySeller.set(username, new Set([hash]))
    else hashes.add(hash)
    if (this.#routes.size > this.#maxRoutes) this.#routes.pop()
    // The larger table starts empty, and fills with the links that are called again.
    const length = this.#near.length
    if (this.#routes.size > length / 4) this.#near = new Array(length * 4).fill(undefined)
  }

  #dropped(route: Pipeline, hash: number): void {
    const username = route.key.slice(0, route.key.indexOf('/'))
    const hashes = this.#bySeller.get(username)
    if (hashes?.delete(hash) && hashes.size === 0) this.#bySeller.delete(username)
    const near = this.#near
    const slot = hash & (near.length - 1)
    if (near[slot] === route) near[slot] = undefined
    if (near[slot ^ 1] === route) near[slot ^ 1] = undefined
    route.dispose()
  }
}

/** A generation and its compiled routes, which are replaced together. */
export interface Live {
  readonly generation: Generation
  readonly table: RouteTable
}

/** The current generation, and the replaced ones that still have running calls. */
export class LiveGeneration {
  /** The generation that serves every new call. {@link swap} replaces it. */
  current: Live
  readonly #retiring = new Set<Promise<void>>()
  readonly #links: Addresses
  readonly #changes: Changes
  readonly #clock: Clock
  readonly #maxRoutes: number
  readonly #hashOf: (key: string) => number

  /**
   * @param maxRoutes maximum links that are kept compiled
   * @param hashOf returns a 32-bit hash of an address
   */
  constructor(
    first: Generation,
    links: Addresses,
    changes: Changes,
    clock: Clock,
    maxRoutes: number = MAX_ROUTES,
    hashOf: (key: string) => number = createHash(),
  ) {
    this.#hashOf = hashOf
    this.#links = links
    this.#changes = changes
    this.#clock = clock
    this.#maxRoutes = maxRoutes
    first.start()
    this.current = this.#liveOf(first)
  }

  /**
   * Makes another generation serve all new calls.
   *
   * @returns at once. `retired` resolves when the old generation's last call has ended and its plugins are closed
   * @throws the error of a plugin of the new generation at its start. The old generation then continues
   */
  async swap(next: Generation): Promise<{ readonly retired: Promise<void> }> {
    try {
      next.start()
    } catch (error) {
      await next.closePlugins().catch(() => undefined)
      throw error
    }
    const old = this.current
    this.current = this.#liveOf(next)
    return { retired: this.#retire(old) }
  }

  /** Closes every generation when its calls have ended. */
  async close(): Promise<void> {
    void this.#retire(this.current).catch(() => undefined)
    await Promise.allSettled(this.#retiring)
  }

  #liveOf(generation: Generation): Live {
    const [links, changes, clock] = [this.#links, this.#changes, this.#clock]
    const table = new RouteTable(generation, links, changes, clock, this.#maxRoutes, this.#hashOf)
    return { generation, table }
  }

  #retire({ generation, table }: Live): Promise<void> {
    const retiring = generation.retire(table.close())
    this.#retiring.add(retiring)
    const forget = () => void this.#retiring.delete(retiring)
    retiring.then(forget, forget)
    return retiring
  }
}

/**
 * Makes a hash function from addresses to 32 bits. Its random seed prevents a seller from choosing a slug with the hash of another
 * link.
 */
export function createHash(): (key: string) => number {
  const seed = randomInt(2 ** 32) | 0
  return (key) => {
    let hash = seed
    for (let i = 0; i < key.length; i++) {
      hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
      hash ^= hash >>> 15
    }
    return hash
  }
}

const charsOf = ({ link }: Pipeline): number => JSON.stringify(link).length
