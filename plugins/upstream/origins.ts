import type { Egress, UpstreamPool } from '../../core/ports/egress.ts'
import { type Place, Places, StoreCalls } from './places.ts'

/** The connections to one origin, shared by every link that points there. */
export class Origin {
  #links = 0
  readonly #places = new Places((store) => this.#releaseUnused(store))
  readonly #stores = new Map<string, StoreCalls>()
  #pool: UpstreamPool | null = null
  readonly #name: string
  readonly #egress: Pick<Egress, 'pool'>
  readonly #forget: () => void

  constructor(name: string, egress: Pick<Egress, 'pool'>, forget: () => void) {
    this.#name = name
    this.#egress = egress
    this.#forget = forget
  }

  /** @returns the calls of the store there @throws `VALIDATION_ERROR` for an address that may not be connected to. */
  link(storeId: string): StoreCalls {
    this.#acquire()
    let store = this.#stores.get(storeId)
    if (store === undefined) this.#stores.set(storeId, (store = new StoreCalls(storeId)))
    store.links++
    this.#links++
    return store
  }

  unlink(store: StoreCalls): void {
    store.links--
    this.#links--
    this.#releaseUnused(store)
  }

  /** A call begins; one of a link that was dropped meanwhile still gets its connection. */
  begin(store: StoreCalls, isPaid: boolean, freeTurnMs: number): Place {
    this.#acquire()
    return this.#places.begin(store, isPaid, freeTurnMs)
  }

  /** There between {@link begin} and the release of the place. */
  get pool(): UpstreamPool {
    return this.#pool!
  }

  #acquire(): void {
    if (this.#pool !== null) return
    this.#pool = this.#egress.pool(this.#name)
    this.#places.total = this.#pool.connections
  }

  #releaseUnused(store: StoreCalls): void {
    if (store.links === 0 && store.open === 0 && this.#stores.get(store.storeId) === store) {
      this.#stores.delete(store.storeId)
    }
    if (this.#links > 0 || this.#places.open > 0) return
    this.#pool?.release()
    this.#pool = null
    this.#forget()
  }
}

const all = new WeakMap<Pick<Egress, 'pool'>, Origins>()

/** The origins of one way out: calls and tunnels of a generation that retires count for the one that follows it. */
export function originsOf(egress: Pick<Egress, 'pool'>): Origins {
  const known = all.get(egress) ?? new Origins(egress)
  all.set(egress, known)
  return known
}

/** Origins of links by name; those that nobody uses are forgotten. */
export class Origins {
  readonly #byName = new Map<string, Origin>()
  readonly #egress: Pick<Egress, 'pool'>

  constructor(egress: Pick<Egress, 'pool'>) {
    this.#egress = egress
  }

  /** @throws `VALIDATION_ERROR` for an address that may not be connected to. */
  link(name: string, storeId: string): { readonly origin: Origin; readonly calls: StoreCalls } {
    const known = this.#byName.get(name)
    const origin = known ?? new Origin(name, this.#egress, () => this.#forget(name, origin))
    const calls = origin.link(storeId)
    if (known === undefined) this.#byName.set(name, origin)
    return { origin, calls }
  }

  #forget(name: string, origin: Origin): void {
    if (this.#byName.get(name) === origin) this.#byName.delete(name)
  }
}
