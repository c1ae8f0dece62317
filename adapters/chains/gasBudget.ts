import type { NetworkId } from '../../core/domain/network.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { GasBook } from '../../core/ports/store/gasBook.ts'

const dayMs = 86_400_000
/** The book is written once for so many parts of a day's budget, ahead of what was spent: a kill loses nothing. Only then is it known what others spend. */
const stepsADay = 1_000n

export interface GasBudgetOptions {
  readonly network: NetworkId
  /** Null where somebody else pays for gas. */
  readonly maxGasPerStoreAndDay: bigint | null
  readonly clock: Clock
  readonly log: Log
  readonly gasBook?: GasBook | undefined
}

/** Why nothing more is set apart: the day is used up, or would be with what is on its way, which may come back. */
export type NoGas = 'store_gas' | 'store_in_flight'

/** What one store's settlements may cost today. */
export interface StoreGas {
  /** Why not the least may be set apart now. */
  readonly noGas: NoGas | undefined
  /** A negative amount gives back. @returns why the day has no room for it */
  reserve(gas: bigint): NoGas | undefined
  /** What was set apart is free again, and so much of it, or more, is spent. A negative amount takes back what was counted before. */
  settle(reserved: bigint, spent: bigint): void
}

/**
 * Gas by store and day (UTC): a seller who buys from himself costs the operator so much a day, and no more. It is written
 * ahead in small steps, so that restarting does not give a store a new day, and a settlement does not wait for a disk. Processes that
 * settle for one store side by side add to one sum: together they spend no more than a step each beyond the day, and what each has on
 * its way when it ends.
 */
export interface GasBudget {
  of(storeId: string): StoreGas
  start(): Promise<void>
  diagnose(): string[]
  close(): Promise<void>
}

export function createGasBudget(options: GasBudgetOptions): GasBudget {
  const { network, maxGasPerStoreAndDay: most, clock, log, gasBook } = options
  const step = (most ?? 0n) / stepsADay || 1n
  const stores = new Map<string, Entry>()
  const writing = new Set<Promise<void>>()
  let isClosed = false
  const today = () => Math.floor(clock.now() / dayMs)

  const entryOf = (storeId: string): Entry => {
    const day = today()
    let entry = stores.get(storeId)
    if (entry === undefined) {
      // Those of former days, with nothing on its way, have nothing to say any more.
      if (stores.size % 1_000 === 999) {
        for (const [id, old] of stores) if (old.day < day && old.reserved === 0n) stores.delete(id)
      }
      stores.set(storeId, (entry = { day, spent: 0n, ahead: 0n, reserved: 0n, isTold: false }))
    }
    // What the book could not be told yet is of the day before.
    if (entry.day < day && entry.ahead < 0n && gasBook !== undefined) add(storeId, entry, -entry.ahead)
    // A clock that goes back does not bring a day back.
    if (entry.day < day) Object.assign(entry, { day, spent: 0n, ahead: 0n, isTold: false })
    return entry
  }

  /** Of a sum in the book: what this process has not spent of it others have. One that was asked for before is older than what is known. */
  const learn = (entry: Entry, sum: bigint): void => {
    if (sum - entry.ahead > entry.spent) entry.spent = sum - entry.ahead
  }

  const add = (storeId: string, entry: Entry, spent: bigint): void => {
    const { day } = entry
    entry.ahead += spent
    const done: Promise<void> = gasBook!
      .add(network, { storeId, day, spent })
      .then((sum) => {
        if (entry.day === day) learn(entry, sum)
      })
      .catch((err: unknown) => {
        // The next settlement tries again.
        if (entry.day === day) entry.ahead -= spent
        log.warn({ err, network, storeId }, 'could not note what gas was spent')
      })
      .finally(() => writing.delete(done))
    writing.add(done)
  }

  const noGasFor = ({ spent, reserved }: Entry, gas: bigint): NoGas | undefined => {
    if (most === null || spent + reserved + gas <= most) return undefined
    return spent + gas > most ? 'store_gas' : 'store_in_flight'
  }

  return {
    of(storeId) {
      return {
        get noGas() {
          return noGasFor(entryOf(storeId), 1n)
        },
        reserve(gas) {
          const entry = entryOf(storeId)
          const why = gas > 0n ? noGasFor(entry, gas) : undefined
          if (why === 'store_gas' && !entry.isTold) {
            log.error({ network, storeId }, 'a store has used up its gas of today')
            entry.isTold = true
          }
          if (why === undefined) entry.reserved += gas
          return why
        },
        settle(reserved, spent) {
          if (reserved === 0n && spent === 0n) return
          const entry = entryOf(storeId)
          entry.reserved -= reserved
          entry.spent += spent
          if (gasBook === undefined) return
          entry.ahead -= spent
          if (!isClosed && entry.ahead < 0n) add(storeId, entry, step - entry.ahead)
        },
      }
    },
    async start() {
      if (gasBook === undefined) return
      for (const { storeId, day, spent } of await gasBook.read(network, today())) {
        const entry = entryOf(storeId)
        if (day > entry.day) Object.assign(entry, { day, spent: 0n, ahead: 0n, isTold: false })
        learn(entry, spent)
      }
    },
    diagnose() {
      return [...stores.keys()]
        .filter((storeId) => entryOf(storeId).isTold || noGasFor(entryOf(storeId), 1n) === 'store_gas')
        .map(
          (storeId) =>
            `${network}: store ${storeId} has used up its gas of today (maxGasPerStoreAndDay); its payments are refused until midnight UTC.`,
        )
    },
    async close() {
      isClosed = true
      await Promise.all(writing)
      if (gasBook === undefined) return
      for (const [storeId, entry] of stores) {
        // What is on its way stays noted: nobody may know here any more what it has cost.
        const over = entry.ahead - entry.reserved
        if (over > 0n || entry.ahead < 0n) add(storeId, entry, over > 0n ? -over : -entry.ahead)
      }
      await Promise.all(writing)
    },
  }
}

interface Entry {
  day: number
  /** By all processes, as far as known. */
  spent: bigint
  /** What was added to the book and is not spent yet; below zero only while the book can't be written. */
  ahead: bigint
  /** Of payments on their way. */
  reserved: bigint
  /** Whether the log has heard that the day is used up. */
  isTold: boolean
}
