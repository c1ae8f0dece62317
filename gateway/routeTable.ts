import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Generation } from '../core/kernel/generation.ts'
import type { Program } from '../core/kernel/program.ts'
import { noLink } from '../core/kernel/prototypeLinks.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Changes } from '../core/ports/store/changes.ts'
import type { Links } from '../core/ports/store/links.ts'

/** An address that no link has. */
export interface NoRoute {
  readonly link: null
  /** Where the link went that was called here until lately. */
  readonly movedTo: { readonly username: string; readonly slug: string } | undefined
}

/** What the table reads of the store. */
export type Addresses = Pick<Links, 'served' | 'redirectOf'>

/** How long an address without a link is remembered as such; what changes the answer is heard of before. */
const MISSING_MS = 10_000
const MAX_MISSING = 10_000
/** Links that are kept compiled, about two kilobytes each where they say little of themselves… */
export const MAX_ROUTES = 131_072
/** …and fewer where they say much: so many characters in all, of which a paid link keeps some a second time, in its 402. */
const MAX_CHARS = 200_000_000
/** Full to this part, the table begins to keep which routes were called last: a note at random places of memory for each call. */
const NEARLY_FULL = 7 / 8
/** Places of links that are found at one look: a power of two, and four times as many whenever a quarter as many links are known. */
const LEAST_NEAR = 256
/** Programs that are given up in one turn of the event loop, so that a reload does not hold calls up for those of all links. */
const GIVEN_UP_IN_A_TURN = 25

/**
 * The routes of one generation, compiled when a link is first called and dropped when it changes. A lookup of a known
 * address is immediate: one look into a map. Addresses without a link are known as well, with where they lead.
 */
export class RouteTable {
  /**
   * By a hash of their keys. By the keys themselves V8 would look each one up among all strings that it knows, and then in the map. Of
   * two links with the same hash, one pair among 100,000, the one that is called last is known.
   */
  readonly #routes: LRUCache<number, Program>
  readonly #hashOf: (key: string) => number
  /**
   * Some of them by a few bits of the hash, two to a pair: one look, where the cache takes five in its map, its chains and its list, and of
   * very many links each of these is at another place of memory. Never more than a copy.
   */
  #near: (Program | undefined)[] = new Array(LEAST_NEAR).fill(undefined)
  readonly #missing = new LRUCache<string, NoRoute>({ max: MAX_MISSING, ttl: MISSING_MS })
  readonly #loading = new Map<string, Promise<Program | NoRoute>>()
  /** Where the routes of each seller are: what a change of his drops is found without a look at all others. */
  readonly #bySeller = new Map<string, Set<number>>()
  readonly #unsubscribe: () => void
  readonly #links: Addresses
  readonly #clock: Clock
  readonly #maxRoutes: number
  readonly #generation: Generation
  /** Grows with every change: what was read before a change is not kept after it. */
  #epoch = 0

  #isClosed = false
  /** Compiled when it is first needed: one, however many links there were. */
  #former: Program | null | undefined

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
    // Calls of a dropped version may still run; a plugin's dispose allows for them.
    // Without `max`, for which it would make room at once: some MB that most gateways never use.
    this.#routes = new LRUCache({
      maxSize: MAX_CHARS,
      sizeCalculation: charsOf,
      dispose: (route, hash) => this.#dropped(route, hash),
    })
    this.#unsubscribe = changes.subscribe((change) => {
      this.#epoch++
      if (this.#missing.size > 0) this.#missing.clear()
      // Who asks after the change must not join a read that began before it.
      this.#loading.clear()
      if (change.kind === 'link') this.#routes.delete(this.#hashOf(`${change.username}/${change.slug}`))
      else for (const hash of [...(this.#bySeller.get(change.username) ?? [])]) this.#routes.delete(hash)
    })
  }

  /**
   * What is known of an address; undefined when the store has to be asked.
   * @param key `<seller>/<slug>` as it stands in the address
   */
  lookup(key: string): Program | NoRoute | undefined {
    const routes = this.#routes
    const isNearlyFull =
      routes.size > NEARLY_FULL * this.#maxRoutes || routes.calculatedSize > NEARLY_FULL * MAX_CHARS
    const hash = this.#hashOf(key)
    if (isNearlyFull) {
      const route = routes.get(hash)
      return route !== undefined && route.key === key ? route : this.#missing.get(key)
    }
    const near = this.#near
    const place = hash & (near.length - 1)
    let route = near[place]
    if (route !== undefined && route.key === key) return route
    route = near[place ^ 1]
    if (route !== undefined && route.key === key) return route
    route = routes.peek(hash)
    if (route === undefined || route.key !== key) return this.#missing.get(key)
    near[place ^ 1] = near[place]
    near[place] = route
    return route
  }

  /** Whether the store is being asked for an address: joining costs nothing. */
  isAsking(key: string): boolean {
    return this.#loading.has(key)
  }

  /** Asks the store for an address. Who asks for it meanwhile joins. */
  ask(key: string): Promise<Program | NoRoute> {
    const underWay = this.#loading.get(key)
    if (underWay !== undefined) return underWay
    const loading = this.#load(key).finally(() => {
      if (this.#loading.get(key) === loading) this.#loading.delete(key)
    })
    this.#loading.set(key, loading)
    return loading
  }

  /**
   * For a call that comes with a payment to an address that no link has: by its payment and what it asks for it is known
   * whether it was bought while there was one. Null where no payments are taken.
   */
  get former(): Program | null {
    if (this.#isClosed) return null
    if (this.#former === undefined) {
      const { program, problems, takesNoPayment } = this.#generation.examine(noLink)
      const holds = program !== undefined && problems.length === 0 && !takesNoPayment
      if (!holds) program?.dispose()
      this.#former = holds ? program : null
    }
    return this.#former
  }

  /**
   * A lookup under way then finds nothing; whoever asked asks the table that came after this one.
   * @returns when every program is given up
   */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#unsubscribe()
    this.#former?.dispose()
    let givenUp = 0
    for (const route of this.#routes.values()) {
      if (givenUp++ % GIVEN_UP_IN_A_TURN === 0) await nextTurn()
      route.dispose()
    }
  }

  async #load(key: string): Promise<Program | NoRoute> {
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
    // The plugins of a closed table may be closed as well: nothing is compiled from them.
    if (this.#isClosed) return { link: null, movedTo: undefined }
    const route = this.#generation.compile(link)
    // A piece of the target that it came with would keep all of that.
    route.key = Buffer.from(key, 'latin1').toString('latin1')
    if (epoch === this.#epoch) this.#keep(username, route)
    else route.dispose()
    return route
  }

  #keep(username: string, route: Program): void {
    const hash = this.#hashOf(route.key)
    this.#routes.set(hash, route)
    const hashes = this.#bySeller.get(username)
    if (hashes === undefined) this.#bySeller.set(username, new Set([hash]))
    else hashes.add(hash)
    if (this.#routes.size > this.#maxRoutes) this.#routes.pop()
    // What is called again finds its place in it.
    const length = this.#near.length
    if (this.#routes.size > length / 4) this.#near = new Array(length * 4).fill(undefined)
  }

  #dropped(route: Program, hash: number): void {
    const username = route.key.slice(0, route.key.indexOf('/'))
    const hashes = this.#bySeller.get(username)
    if (hashes?.delete(hash) && hashes.size === 0) this.#bySeller.delete(username)
    const near = this.#near
    const place = hash & (near.length - 1)
    if (near[place] === route) near[place] = undefined
    if (near[place ^ 1] === route) near[place ^ 1] = undefined
    route.dispose()
  }
}

/** Of an address 32 bits. With a seed, so that nobody can choose a slug whose hash is another link's. */
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

const charsOf = ({ link }: Program): number => JSON.stringify(link).length
