import type { Exchange } from '../plugin/exchange.ts'
import type { AnyGatewayPlugin } from '../plugin/gateway.ts'
import type { OwnSlot } from '../plugin/slots.ts'
import { GenerationError } from './generationError.ts'

/**
 * The slots that the plugins of one generation declared for themselves: each has one place in every call, so that calls
 * keep one shape. An entry of a plugin that is listed twice shares them with the other.
 */
export class OwnSlotTable {
  readonly #places = new Map<string, number>()
  /** What every call begins with, by place; shared until a call writes. */
  readonly #initial: unknown[] = []

  constructor(plugins: readonly AnyGatewayPlugin[]) {
    for (const [name, value] of plugins.flatMap(({ ownSlots }) => Object.entries(ownSlots ?? {}))) {
      if (this.#places.has(name)) continue
      this.#places.set(name, this.#initial.push(value) - 1)
    }
  }

  /** @throws {GenerationError} for a slot that is in none of the plugin's declarations */
  slotOf({ name, slots, ownSlots }: AnyGatewayPlugin, slot: string): OwnSlot<unknown> {
    const isDeclared =
      Object.hasOwn(ownSlots ?? {}, slot) ||
      Object.values(slots ?? {}).some((use) =>
        Object.values(use ?? {}).some((names) => (names as string[]).includes(slot)),
      )
    if (!isDeclared) throw new GenerationError(`${name} asked for slot ${slot}, which it has not declared.`)
    const place = this.#places.get(slot)
    if (place === undefined) return absent
    return new PlacedSlot(place, this.#initial)
  }
}

class PlacedSlot implements OwnSlot<unknown> {
  readonly #place: number
  readonly #initial: readonly unknown[]

  constructor(place: number, initial: readonly unknown[]) {
    this.#place = place
    this.#initial = initial
  }

  get(x: Exchange): unknown {
    return (x.own ?? this.#initial)[this.#place]
  }

  set(x: Exchange, value: unknown): void {
    ;(x.own ??= [...this.#initial])[this.#place] = value
  }
}

/** Of a plugin that is not in the configuration: only a reader gets it. */
const absent: OwnSlot<unknown> = { get: () => undefined, set() {} }
