import { LRUCache } from 'lru-cache'
import { isPaid, type ServedLink } from '../core/domain/link.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { Program } from '../core/kernel/program.ts'
import type { Changes } from '../core/ports/changes.ts'
import type { Links } from '../core/ports/links.ts'

/** One link version, ready to be called. */
export interface Route {
  readonly link: ServedLink
  readonly program: Program
  readonly isPaid: boolean
  /** Methods that the link takes; null for all. */
  readonly methods: ReadonlySet<string> | null
}

/** How long an address without a link is remembered as such, so that guessing does not reach the database each time. */
const MISSING_MS = 1_000
const MAX_MISSING = 10_000

/**
 * The routes of one generation, compiled when a link is first called and dropped when it changes. A lookup of a known
 * link is immediate: one look into a map.
 */
export class RouteTable {
  readonly #routes: LRUCache<string, Route>
  readonly #missing = new LRUCache<string, true>({ max: MAX_MISSING, ttl: MISSING_MS })
  readonly #loading = new Map<string, Promise<Route | undefined>>()
  readonly #unsubscribe: () => void
  readonly #links: Pick<Links, 'served'>
  readonly #generation: Generation
  /** Grows with every change: what was read before a change is not kept after it. */
  #epoch = 0

  #isClosed = false

  constructor(generation: Generation, links: Pick<Links, 'served'>, changes: Changes, maxRoutes = 50_000) {
    this.#generation = generation
    this.#links = links
    // Calls of a dropped version may still run; a plugin's dispose allows for them.
    this.#routes = new LRUCache({ max: maxRoutes, dispose: (route) => route.program.dispose() })
    this.#unsubscribe = changes.subscribe((change) => {
      this.#epoch++
      this.#missing.clear()
      // Who asks after the change must not join a read that began before it.
      this.#loading.clear()
      if (change.kind === 'link') this.#routes.delete(`${change.username}/${change.slug}`)
      else this.#dropStore(`${change.username}/`)
    })
  }

  /** @param key `<seller>/<slug>` as it stands in the address. */
  lookup(key: string): Route | undefined | Promise<Route | undefined> {
    const route = this.#routes.get(key)
    if (route !== undefined) return route
    if (this.#missing.has(key)) return undefined
    const underWay = this.#loading.get(key)
    if (underWay !== undefined) return underWay
    const loading = this.#load(key).finally(() => {
      if (this.#loading.get(key) === loading) this.#loading.delete(key)
    })
    this.#loading.set(key, loading)
    return loading
  }

  /** A lookup under way then finds nothing; whoever asked asks the table that came after this one. */
  close(): void {
    this.#isClosed = true
    this.#unsubscribe()
    this.#routes.clear()
  }

  async #load(key: string): Promise<Route | undefined> {
    const epoch = this.#epoch
    const slash = key.indexOf('/')
    const link = await this.#links.served(key.slice(0, slash), key.slice(slash + 1))
    // The plugins of a closed table may be closed as well: nothing is compiled from them.
    if (this.#isClosed) return undefined
    if (link === undefined) {
      if (epoch === this.#epoch) this.#missing.set(key, true)
      return undefined
    }
    const route: Route = {
      link,
      program: this.#generation.compile(link),
      isPaid: isPaid(link),
      methods: link.methods.length === 0 ? null : new Set(link.methods),
    }
    if (epoch === this.#epoch) this.#routes.set(key, route)
    else route.program.dispose()
    return route
  }

  #dropStore(prefix: string): void {
    for (const key of this.#routes.keys()) if (key.startsWith(prefix)) this.#routes.delete(key)
  }
}
