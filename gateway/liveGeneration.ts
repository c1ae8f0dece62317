import type { Generation } from '../core/kernel/generation.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Changes } from '../core/ports/store/changes.ts'
import { type Addresses, createHash, MAX_ROUTES, RouteTable } from './routeTable.ts'

/** A generation and its compiled routes: swapped as one. */
export interface Live {
  readonly generation: Generation
  readonly table: RouteTable
}

/** The generation that answers now, and those that wait for their last call. */
export class LiveGeneration {
  /** What a call that comes now goes by; {@link swap} sets it. */
  current: Live
  readonly #retiring = new Set<Promise<void>>()
  readonly #links: Addresses
  readonly #changes: Changes
  readonly #clock: Clock
  readonly #maxRoutes: number
  readonly #hashOf: (key: string) => number

  /**
   * @param maxRoutes links that are kept compiled
   * @param hashOf 32 bits of an address
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
   * Makes another generation answer from the next call on.
   * @returns as soon as it does; `retired` resolves when the old one's last call has ended and its plugins are closed.
   * @throws what a plugin of the new one threw at its start; then nothing has changed.
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

  /** Closes every generation as soon as its calls have ended. */
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
