import { LRUCache } from 'lru-cache'
import type { NetworkId } from '../../core/domain/network.ts'
import type { PaymentKey } from '../../core/domain/payment.ts'
import type { SettleOutcome } from '../../core/ports/chains/settler.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { GasBook } from '../../core/ports/store/gasBook.ts'

const DAY_MS = 86_400_000
/**
 * A day's budget is written into the gas book in this many steps. Each step is written before it is spent, so a kill loses nothing.
 * Each write also returns the spending of other processes.
 */
const STEPS_PER_DAY = 1_000n
/** Number of payments whose counted costs are remembered. */
const MAX_REMEMBERED = 10_000

export interface GasBudgetOptions {
  readonly network: NetworkId
  /** Null if a facilitator pays the gas. */
  readonly maxGasPerStoreAndDay: bigint | null
  readonly clock: Clock
  readonly log: Log
  readonly gasBook?: GasBook | undefined
}

/**
 * Why no more gas is reserved. `store_gas` means that the day's budget is used up. `store_in_flight` means that the payments in
 * flight would use it up, but they may return some of it.
 */
export type NoGas = 'store_gas' | 'store_in_flight'

interface StoreDay {
  day: number
  /** The gas that all processes have spent, as far as this process has read. */
  spent: bigint
  /** Gas that is in the book and not spent yet. Negative only while the book cannot be written. */
  ahead: bigint
  /** The gas that is reserved for payments in flight. */
  reserved: bigint
  /** Whether it was logged that the day's budget is used up. */
  isLogged: boolean
}

/**
 * Counts gas costs by store and day (UTC), so that a seller that buys from itself costs the operator a limited amount per day. The
 * costs are written to the book in small steps ahead of the spending. So a restart does not reset the day, and a settlement does
 * not wait for a disk. Processes that settle for one store add to one sum. Each process can exceed the day's budget by at most one
 * step, and by its payments in flight when it ends.
 */
export class GasBudget {
  readonly #options: GasBudgetOptions
  readonly #step: bigint
  readonly #stores = new Map<string, StoreDay>()
  readonly #writing = new Set<Promise<void>>()
  #isClosed = false

  constructor(options: GasBudgetOptions) {
    this.#options = options
    this.#step = (options.maxGasPerStoreAndDay ?? 0n) / STEPS_PER_DAY || 1n
  }

  /** Why not even the smallest amount may be reserved for a store now. */
  noGas(storeId: string): NoGas | undefined {
    return this.#noGasFor(this.#dayOf(storeId), 1n)
  }

  /** Reserves gas. A negative amount returns it. @returns why the day has no room for it */
  reserve(storeId: string, gas: bigint): NoGas | undefined {
    const { network, log } = this.#options
    const store = this.#dayOf(storeId)
    const why = gas > 0n ? this.#noGasFor(store, gas) : undefined
    if (why === 'store_gas' && !store.isLogged) {
      log.error({ network, storeId }, 'a store has used up its gas of today')
      store.isLogged = true
    }
    if (why === undefined) store.reserved += gas
    return why
  }

  /** Frees the reserved gas and counts the spent gas, which may be more. A negative `spent` undoes an earlier count. */
  settle(storeId: string, reserved: bigint, spent: bigint): void {
    if (reserved === 0n && spent === 0n) return
    const store = this.#dayOf(storeId)
    store.reserved -= reserved
    store.spent += spent
    if (this.#options.gasBook === undefined) return
    store.ahead -= spent
    if (!this.#isClosed && store.ahead < 0n) this.#add(storeId, store, this.#step - store.ahead)
  }

  async start(): Promise<void> {
    const { network, gasBook } = this.#options
    if (gasBook === undefined) return
    for (const { storeId, day, spent } of await gasBook.read(network, this.#today())) {
      const store = this.#dayOf(storeId)
      if (day > store.day) beginDay(store, day)
      learn(store, spent)
    }
  }

  diagnose(): string[] {
    return [...this.#stores.keys()]
      .filter((storeId) => this.#dayOf(storeId).isLogged || this.noGas(storeId) === 'store_gas')
      .map(
        (storeId) =>
          `${this.#options.network}: store ${storeId} has used up its gas of today (maxGasPerStoreAndDay); payments to the store are refused until midnight UTC.`,
      )
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#writing)
    if (this.#options.gasBook === undefined) return
    for (const [storeId, store] of this.#stores) {
      // The gas of payments in flight stays in the book, because this process may end before their cost is known.
      const over = store.ahead - store.reserved
      if (over > 0n || store.ahead < 0n) this.#add(storeId, store, over > 0n ? -over : -store.ahead)
    }
    await Promise.all(this.#writing)
  }

  #today(): number {
    return Math.floor(this.#options.clock.now() / DAY_MS)
  }

  #dayOf(storeId: string): StoreDay {
    const day = this.#today()
    const stores = this.#stores
    let store = stores.get(storeId)
    if (store === undefined) {
      // Removes stores without use today and without payments in flight.
      if (stores.size % 1_000 === 999) {
        for (const [id, old] of stores) if (old.day < day && old.reserved === 0n) stores.delete(id)
      }
      stores.set(storeId, (store = { day, spent: 0n, ahead: 0n, reserved: 0n, isLogged: false }))
    }
    // Spending that was not written to the book yet belongs to the day before.
    if (store.day < day && store.ahead < 0n && this.#options.gasBook !== undefined)
      this.#add(storeId, store, -store.ahead)
    // A clock that is set back does not start an earlier day again.
    if (store.day < day) beginDay(store, day)
    return store
  }

  #add(storeId: string, store: StoreDay, spent: bigint): void {
    const { network, log, gasBook } = this.#options
    const { day } = store
    store.ahead += spent
    const done: Promise<void> = gasBook!
      .add(network, { storeId, day, spent })
      .then((sum) => {
        if (store.day === day) learn(store, sum)
      })
      .catch((err: unknown) => {
        // The next settlement writes to the book again.
        if (store.day === day) store.ahead -= spent
        log.warn({ err, network, storeId }, 'could not record the gas that was spent')
      })
      .finally(() => this.#writing.delete(done))
    this.#writing.add(done)
  }

  #noGasFor({ spent, reserved }: StoreDay, gas: bigint): NoGas | undefined {
    const most = this.#options.maxGasPerStoreAndDay
    if (most === null || spent + reserved + gas <= most) return undefined
    return spent + gas > most ? 'store_gas' : 'store_in_flight'
  }
}

function beginDay(store: StoreDay, day: number): void {
  store.day = day
  store.spent = 0n
  store.ahead = 0n
  store.isLogged = false
}

/**
 * Updates the store from a sum of the book, because other processes spent the rest of that sum. A sum below the known one was read
 * earlier, so it is ignored.
 */
function learn(store: StoreDay, sum: bigint): void {
  if (sum - store.ahead > store.spent) store.spent = sum - store.ahead
}

/** The cost that was counted at the end of a flight. */
interface OwnEnd {
  readonly key: PaymentKey
  readonly storeId: string
  readonly spent: bigint
  /** Days since 1970, in UTC. */
  readonly day: number
}

/** Whether a payment's cost is known. A payment whose transaction reverted has cost its fee, even if it can still land later. */
export const isEnd = (outcome: SettleOutcome): boolean =>
  outcome.status === 'pending' ? outcome.message !== undefined : outcome.status !== 'rejected'

/**
 * Costs that this process counted, by payment. Recovery checks a payment until its end is in the ledger, and once more afterwards.
 */
export class CountedEnds {
  readonly #counted = new LRUCache<string, true>({ max: MAX_REMEMBERED })
  /** The map is weak, so that an outcome that the ledger never records takes no memory. */
  readonly #own = new WeakMap<SettleOutcome, OwnEnd>()
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @returns false if it was counted before */
  add(key: PaymentKey, outcome: SettleOutcome): boolean {
    const end = endOf(key, outcome)
    if (this.#counted.has(end)) return false
    this.#counted.set(end, true)
    return true
  }

  /** Like {@link add}, for the end of this process's own flight. Its cost is subtracted again if another process counts it. */
  addOwn(key: PaymentKey, outcome: SettleOutcome, storeId: string, spent: bigint): void {
    this.#counted.set(endOf(key, outcome), true)
    this.#own.set(outcome, { key, storeId, spent, day: this.#today() })
  }

  /** @returns the counted cost; undefined if it was not a flight's end */
  takeBack(
    key: PaymentKey,
    outcome: SettleOutcome,
  ): (Pick<OwnEnd, 'storeId' | 'spent'> & { readonly isOfToday: boolean }) | undefined {
    const own = this.#own.get(outcome)
    if (own?.key !== key) return undefined
    this.#own.delete(outcome)
    this.#counted.delete(endOf(key, outcome))
    return { storeId: own.storeId, spent: own.spent, isOfToday: own.day === this.#today() }
  }

  #today(): number {
    return Math.floor(this.#clock.now() / 86_400_000)
  }
}

const endOf = (key: PaymentKey, { status }: SettleOutcome): string =>
  `${key} ${status === 'settled' ? 'settled' : 'failed'}`
