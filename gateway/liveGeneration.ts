import type { Generation } from '../core/kernel/generation.ts'
import type { Changes } from '../core/ports/changes.ts'
import type { Clock } from '../core/ports/clock.ts'
import { type Addresses, RouteTable } from './routeTable.ts'

/** A generation and its compiled routes: swapped as one. */
export interface Live {
  readonly generation: Generation
  readonly table: RouteTable
}

/** The generation that answers now, and those that wait for their last call. */
export class LiveGeneration {
  #live: Live
  readonly #retiring = new Set<Promise<void>>()
  readonly #links: Addresses
  readonly #changes: Changes
  readonly #clock: Clock

  constructor(first: Generation, links: Addresses, changes: Changes, clock: Clock) {
    this.#links = links
    this.#changes = changes
    this.#clock = clock
    first.start()
    this.#live = this.#liveOf(first)
  }

  get current(): Live {
    return this.#live
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
    const old = this.#live
    this.#live = this.#liveOf(next)
    return { retired: this.#retire(old) }
  }

  /** Closes every generation as soon as its calls have ended. */
  async close(): Promise<void> {
    void this.#retire(this.#live).catch(() => undefined)
    await Promise.allSettled(this.#retiring)
  }

  #liveOf(generation: Generation): Live {
    return { generation, table: new RouteTable(generation, this.#links, this.#changes, this.#clock) }
  }

  #retire({ generation, table }: Live): Promise<void> {
    table.close()
    const retiring = generation.retire()
    this.#retiring.add(retiring)
    const forget = () => void this.#retiring.delete(retiring)
    retiring.then(forget, forget)
    return retiring
  }
}
