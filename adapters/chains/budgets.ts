import { LRUCache } from 'lru-cache'
import type { NetworkId } from '../../core/domain/network.ts'
import type { PaymentIdentity, PaymentKey, PaymentRecord } from '../../core/domain/payment.ts'
import type { ConcludedOf, Hold, SettleOutcome } from '../../core/ports/chains/settler.ts'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import type { GasBook } from '../../core/ports/store/gasBook.ts'
import { CountedEnds, isEnd } from './countedEnds.ts'
import { createGasBudget, type GasBudget, type NoGas } from './gasBudget.ts'
import { type Placed, Places } from './places.ts'

/** Payers whose failures are remembered, and as many who have paid; those with payments on their way are never forgotten. */
const MAX_REMEMBERED = 10_000
/** Of these, so many are looked at to find one that can be forgotten. */
const MOST_PASSED_OVER = 16
/** So long after its end nothing can come of a payment that was sent any more, whoever has forgotten to say so. */
const GONE_AFTER_MS = 600_000

/**
 * Payments of payers who have not paid before that may stay open without a place, each some 2 kB: wallets cost nothing, and a facilitator
 * may leave open whatever it is sent. Those who have paid before have as many again, and beyond them one each.
 */
const MOST_OPEN = 20_000

/** Payments that are asked for at once whether another process has concluded them. */
const MOST_LOOKED_UP = 1_000

/** What bad payments may cost; every settler has these options. */
export interface BudgetLimits {
  /** Payments of one payer on their way at once. */
  readonly maxInFlightPerPayer: number
  /** Payments of all on their way at once. */
  readonly maxInFlight: number
  /** Failures that one payer may cause in any window; a payment on its way counts as one until it has settled. */
  readonly failureBudget: { readonly failures: number; readonly windowMs: number }
  /**
   * Most that a store's settlements may cost in a day, in the smallest unit of the network's coin; null where somebody
   * else pays for them.
   */
  readonly maxGasPerStoreAndDay: bigint | null
}

export interface BudgetsOptions extends BudgetLimits {
  readonly network: NetworkId
  readonly clock?: Clock
  readonly log?: Log
  /** Where the gas of the day is kept; only in this process when absent. */
  readonly gasBook?: GasBook | undefined
}

/** Why a payment gets no place: too many on their way, the payer's failures, the store's gas, the means of the account that would pay. */
export type NoPlace = 'in_flight' | 'payer_in_flight' | 'payer_failures' | 'means' | NoGas

/**
 * A payment on its way, from before the chain is asked until its outcome is known. Whatever it could cost is set apart
 * meanwhile, so that a thousand at once can't cost more than a thousand in a row.
 */
export interface Flight extends Hold {
  readonly storeId: string
  /** What the payer's other payments in this asset, those before this one, will take of the balance. */
  readonly aheadAtomic: bigint
  /**
   * The chain has called it good: sets apart what its settlement may cost. Where all places are taken, or all that the account can pay
   * for, another good one gives way to it: only if it is then taken for certain, and to a payer of whom something has settled since
   * somebody last gave way to it. One who leaves again and again would throw out as many otherwise.
   *
   * @param account that pays it, where a settler has several that do not pay for each other
   * @param affords how many settlements the account can pay for, this one and all that wait for it among them; no bound when absent
   * @returns why not: what is missing, or that it has given way itself
   */
  reserve(gas: bigint, account?: string, affords?: number): NoPlace | undefined
  /** Whether a transaction of it is signed here: what that one may cost is the account's own to count. */
  signed(is: boolean): void
  /** A transaction of it was mined for nothing and has cost so much; it is sent once more, and what that costs comes on top. */
  spent(gas: bigint): void
  /** The chain refused it before anything was sent: it counts as a failure of its payer. */
  refused(): void
  /** Its settlement begins; from here on only {@link Flight.end} ends it. False when it was released before, or has given way. */
  begin(): boolean
  /**
   * Its settlement has an outcome. A pending one stays on its way until {@link Budgets.note} hears of it: it counts against its payer,
   * and keeps its place among those of all as long as it can cost gas here. One that can't gives that back: a payer whose payments are
   * called good and then refused, because he spends the same money elsewhere meanwhile, would otherwise take all places for nothing.
   *
   * @param gas what it cost; what was set apart when that is not known
   */
  end(outcome: SettleOutcome, gas?: bigint): void
}

/** Bounds what payments can cost whoever settles: by payer, by store and day, and in number. */
export interface Budgets {
  /** Takes a place, before anything is asked for the payment. */
  take(identity: PaymentIdentity, storeId: string): Flight | NoPlace
  /** The flight behind a hold that {@link Budgets.take} gave. */
  of(hold: Hold | undefined): Flight | undefined
  /**
   * A payment was looked up and has an outcome, which stands in its row now. It counts once, however often it is looked up after; one that
   * was mined for nothing at the first look that finds that, as recovery then writes so into its row.
   *
   * @param gas what it cost; when that is not known, what was set apart for it, or for the last one
   */
  note(record: PaymentRecord, outcome: SettleOutcome, gas?: bigint): void
  /** Takes back what the end of a flight has counted as its cost: somebody else has the row, and counts it. See `Settler.overtaken`. */
  overtaken(payment: Pick<PaymentIdentity, 'key'>, outcome: SettleOutcome): void
  /**
   * Forgets payments whose settlement stayed open here, and is open no more in the store: another process has concluded them, and has
   * counted what they cost. See `Settler.forgetConcluded`.
   */
  forgetConcluded(concludedOf: ConcludedOf): Promise<void>
  /** Whether the payer has failed so often that nothing more is tried. */
  isSpent(payer: string): boolean
  /** Payments that have a place, those too that are still looked at. */
  readonly inFlight: number
  /** Those of them that the chain has called good, and for which the account is still to sign. @param account see {@link Flight.reserve} */
  waitingFor(account?: string): number
  /** Takes up what the day has cost before this process began. @throws when the book can't be read */
  start(): Promise<void>
  /** Stores that get no settlements for today, in words for the operator. */
  diagnose(): string[]
  close(): Promise<void>
}

export function createBudgets(options: BudgetsOptions): Budgets {
  const { maxInFlight, maxInFlightPerPayer, failureBudget, clock = systemClock, log = silentLog } = options
  const gasBudget: GasBudget = createGasBudget({ ...options, clock, log })
  const payers = new Map<string, Payer>()
  /** Who has paid here since this process began. */
  const known = new LRUCache<string, true>({ max: MAX_REMEMBERED })
  const ends = new CountedEnds(clock)
  const places = new Places<OpenFlight>(maxInFlight, clock)
  const flightOf = new WeakMap<Hold, Flight>()
  /** Payments whose settlement stayed open, until they are looked up. */
  const open = new Map<PaymentKey, OpenFlight>()
  /** Those of them that have no place, and that nothing else bounds. */
  const placeless = new Set<OpenFlight>()
  let lastReserved = 0n

  const failuresOf = (payer: Payer): number => {
    const since = clock.now() - failureBudget.windowMs
    while (payer.failedAtMs.length > 0 && payer.failedAtMs[0]! <= since) payer.failedAtMs.shift()
    return payer.failedAtMs.length
  }
  const payerOf = (address: string): Payer => {
    let payer = payers.get(address)
    if (payer === undefined) {
      if (payers.size >= MAX_REMEMBERED) forgetOne()
      payer = { inFlight: 0, flights: new Set(), sums: new Map(), failedAtMs: [], displacedAtMs: null }
      payers.set(address, payer)
    }
    return payer
  }
  const forgetOne = (): void => {
    // Those that can't be forgotten now are passed over next time, however many they are.
    let left = MOST_PASSED_OVER
    for (const [address, payer] of payers) {
      if (payer.inFlight === 0) return void payers.delete(address)
      if (left-- === 0) return
      payers.delete(address)
      payers.set(address, payer)
    }
  }
  const owes = ({ displacedAtMs }: Payer): boolean =>
    displacedAtMs !== null && clock.now() < displacedAtMs + failureBudget.windowMs
  const isForgotten = (payer: Payer): boolean =>
    payer.inFlight === 0 && payer.failedAtMs.length === 0 && !owes(payer)
  const hasPaid = (address: string): void => {
    known.set(address, true)
    const payer = payers.get(address)
    if (payer !== undefined) payer.displacedAtMs = null
  }
  const fail = (payer: Payer): void => {
    payer.failedAtMs.push(clock.now())
  }
  const noPlaceFor = (address: string): NoPlace | undefined => {
    const payer = payers.get(address)
    const failures = payer === undefined ? 0 : failuresOf(payer)
    const inFlight = payer?.inFlight ?? 0
    if (payer !== undefined && isForgotten(payer)) payers.delete(address)
    if (failures >= failureBudget.failures) return 'payer_failures'
    if (inFlight >= maxInFlightPerPayer || failures + inFlight >= failureBudget.failures)
      return 'payer_in_flight'
    // Last: nobody gives way to what is refused all the same.
    if (places.isFull) return 'in_flight'
  }
  const areTooManyOpen = (address: string): boolean => {
    if (placeless.size < MOST_OPEN) return false
    if (!known.has(address)) return true
    return placeless.size >= 2 * MOST_OPEN && (payers.get(address)?.inFlight ?? 0) > 0
  }
  /** What can't land any more and nobody has said so: a process that ended, or one that stands still. */
  const sweep = (of: Iterable<OpenFlight>): void => {
    for (const flight of of) {
      // What was not sent yet can't be any more.
      const goneAfterMs = flight.state === 'held' ? 0 : GONE_AFTER_MS
      if (clock.now() < flight.identity.validBeforeMs + goneAfterMs) continue
      log.warn({ payment: flight.identity.key }, 'nobody told what became of a payment; it is over')
      // What stayed open is counted by whoever finds what became of it.
      const isOpen = open.get(flight.identity.key) === flight
      flight.finish(flight.state === 'held' || isOpen ? 0n : undefined)
    }
  }

  function fly(identity: PaymentIdentity, storeId: string): Flight {
    const { payer: address, asset, amountAtomic } = identity
    const payer = payerOf(address)
    const aheadAtomic = payer.sums.get(asset) ?? 0n
    payer.inFlight++
    payer.sums.set(asset, aheadAtomic + amountAtomic)
    const gas = gasBudget.of(storeId)
    let reserved = 0n
    const own: OpenFlight = {
      ...{ identity, storeId, payer: address, sinceMs: clock.now(), isKnown: known.has(address) },
      state: 'held',
      isApart: false,
      account: '',
      isWaiting: false,
      finish(spent = reserved) {
        if (own.state === 'over') return
        own.state = 'over'
        places.delete(own)
        placeless.delete(own)
        payer.flights.delete(own)
        if (open.get(identity.key) === own) open.delete(identity.key)
        const left = payer.sums.get(asset)! - amountAtomic
        if (left === 0n) payer.sums.delete(asset)
        else payer.sums.set(asset, left)
        payer.inFlight--
        if (isForgotten(payer) && payers.get(address) === payer) payers.delete(address)
        gas.settle(reserved, spent)
      },
      failed: () => fail(payerOf(address)),
    }
    places.add(own)
    payer.flights.add(own)
    const flight: Flight = {
      storeId,
      aheadAtomic,
      reserve(most, account = '', affords = Number.POSITIVE_INFINITY) {
        if (own.state === 'over') return 'in_flight'
        const why = gas.reserve(most - reserved)
        if (why !== undefined) return why
        // Last: nobody gives way to what is refused all the same.
        const place = own.isApart ? 'free' : places.setApart(own, account, affords, !owes(payer))
        if (place === 'in_flight' || place === 'means') {
          gas.settle(most - reserved, 0n)
          return place
        }
        if (place === 'displaced') payer.displacedAtMs = clock.now()
        reserved = lastReserved = most
        return undefined
      },
      signed(is) {
        if (own.state !== 'over') places.signed(own, is)
      },
      spent: (cost) => gas.settle(0n, cost),
      release() {
        if (own.state === 'held') own.finish(0n)
      },
      refused() {
        if (own.state !== 'held') return
        own.finish(0n)
        own.failed()
      },
      begin() {
        if (own.state !== 'held') return false
        own.state = 'settling'
        return true
      },
      end(outcome, spent) {
        if (own.state === 'over') return
        if (isEnd(outcome)) ends.addOwn(identity.key, outcome, storeId, spent ?? reserved)
        switch (outcome.status) {
          case 'pending':
            // What may still come of it costs nobody here anything.
            if (isEnd(outcome)) {
              own.finish(spent)
              return own.failed()
            }
            if (reserved === 0n) {
              places.delete(own)
              placeless.add(own)
            }
            open.get(identity.key)?.finish()
            open.set(identity.key, own)
            return
          case 'rejected':
            return own.finish(0n)
          case 'settled':
            hasPaid(address)
            return own.finish(spent)
          case 'failed_final':
            own.finish(spent)
            own.failed()
        }
      },
    }
    flightOf.set(flight, flight)
    return flight
  }

  return {
    take(identity, storeId) {
      // What nobody has given back must not be in the way of what its payer buys now.
      sweep(payers.get(identity.payer)?.flights ?? [])
      let why = noPlaceFor(identity.payer)
      if (why !== undefined) {
        sweep(places)
        why = noPlaceFor(identity.payer)
      }
      const isFull = why === 'in_flight'
      if (why !== undefined && !isFull) return why
      const { noGas } = gasBudget.of(storeId)
      if (noGas !== undefined) return noGas
      if (areTooManyOpen(identity.payer)) return 'in_flight'
      return isFull && !places.mayBeLookedAt(identity.payer, storeId, known.has(identity.payer))
        ? 'in_flight'
        : fly(identity, storeId)
    },
    of: (hold) => (hold === undefined ? undefined : flightOf.get(hold)),
    note({ key, payer, storeId, state }, outcome, gas) {
      if (!isEnd(outcome)) return
      const flight = open.get(key)
      flight?.finish(gas)
      if ((state === outcome.status && state !== 'pending') || !ends.add(key, outcome)) return
      // Of one that a reorganisation has taken back it was counted when it landed first.
      if (flight === undefined && state !== 'reorged') gasBudget.of(storeId).settle(0n, gas ?? lastReserved)
      if (outcome.status === 'settled') hasPaid(payer)
      else fail(payerOf(payer))
    },
    overtaken({ key }, outcome) {
      const end = ends.takeBack(key, outcome)
      // What was of another day is not of this one.
      if (end?.isOfToday) gasBudget.of(end.storeId).settle(0n, -end.spent)
    },
    async forgetConcluded(concludedOf) {
      // Who has no place is met by nobody who looks for one.
      sweep(open.values())
      const stayed = new Map([...open].slice(0, MOST_LOOKED_UP))
      if (stayed.size === 0) return
      for (const record of await concludedOf([...stayed.keys()])) {
        const flight = stayed.get(record.key)!
        if (flight.state === 'over') continue
        // Whoever writes a payment's end into its row counts what it cost, where this process is gone as well.
        flight.finish(0n)
        // Freed, or freed and claimed anew.
        const isUnsent = record.state === 'rejected' || record.state === 'claimed'
        if (record.state === 'failed_final') flight.failed()
        else if (!isUnsent) hasPaid(record.payer)
      }
      // The others' turn is before theirs.
      for (const [key, flight] of stayed) {
        if (open.get(key) !== flight) continue
        open.delete(key)
        open.set(key, flight)
      }
    },
    isSpent(address) {
      const payer = payers.get(address)
      return payer !== undefined && failuresOf(payer) >= failureBudget.failures
    },
    get inFlight() {
      return places.taken
    },
    waitingFor: (account = '') => places.waitingFor(account),
    start: () => gasBudget.start(),
    diagnose: () => gasBudget.diagnose(),
    close: () => gasBudget.close(),
  }
}

interface Payer {
  inFlight: number
  readonly flights: Set<OpenFlight>
  /** Of the payments on their way, by asset. */
  readonly sums: Map<string, bigint>
  /** Oldest first, no older than the window. */
  readonly failedAtMs: number[]
  /** When somebody last gave way to one of its payments; null once one has settled since. */
  displacedAtMs: number | null
}

interface OpenFlight extends Placed {
  readonly identity: PaymentIdentity
  state: 'held' | 'settling' | 'over'
  /** Gives its place back. @param spent what it cost; all that was set apart when absent */
  finish(spent?: bigint): void
  failed(): void
}
