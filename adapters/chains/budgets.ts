import type { NetworkId } from '../../core/domain/network.ts'
import type { PaymentIdentity, PaymentKey, PaymentRecord } from '../../core/domain/payment.ts'
import type { ConcludedOf, Hold, SettleOutcome } from '../../core/ports/chains/settler.ts'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import type { GasBook } from '../../core/ports/store/gasBook.ts'
import { Flights, type InFlight, type Payer, type PayerLimits, Payers } from './flights.ts'
import { CountedEnds, GasBudget, isEnd, type NoGas } from './gasBudget.ts'

/** How long after it expired a sent payment counts as over, in ms, even if this process never learned its outcome. */
const GONE_AFTER_MS = 600_000

/**
 * Maximum number of open payments that no longer count as in flight, of payers that have not paid before. Each takes about 2 kB.
 * The limit is needed because wallets cost nothing, and a facilitator may leave every payment open. Payers that have paid before
 * share another limit of this size. Beyond it each of them may have one such payment.
 */
const MAX_OPEN = 20_000

/** How many payments each round checks for a conclusion by another process. */
const MAX_CHECKED = 1_000

/** Limits of the costs that failing payments may cause. Every settler has these options. */
export interface BudgetLimits extends PayerLimits {
  /** Maximum number of payments in flight, over all payers. */
  readonly maxInFlight: number
  /**
   * Highest cost of a store's settlements per day, in the smallest unit of the network's coin. Null if a facilitator pays the fees.
   */
  readonly maxGasPerStoreAndDay: bigint | null
}

export interface BudgetsOptions extends BudgetLimits {
  readonly network: NetworkId
  readonly clock?: Clock
  readonly log?: Log
  /** Stores the day's gas costs for all processes. If it is absent, this process counts only its own. */
  readonly gasBook?: GasBook | undefined
}

/**
 * Why a payment is not admitted. Too many payments are in flight, the payer has failed too often, the store's daily gas is used up,
 * or the account that pays the fees has too little balance.
 */
export type NotAdmitted = 'in_flight' | 'payer_in_flight' | 'payer_failures' | 'means' | NoGas

/** The state that all flights on one network share. */
class SharedState {
  readonly clock: Clock
  readonly gas: GasBudget
  readonly ends: CountedEnds
  readonly payers: Payers<Flight>
  readonly flights: Flights<Flight>
  /** Payments whose settlement has no outcome yet. */
  readonly open = new Map<PaymentKey, Flight>()
  /** Open payments that no longer count as in flight. Only MAX_OPEN limits them. */
  readonly openOnly = new Set<Flight>()
  lastReserved = 0n

  constructor(options: BudgetsOptions, clock: Clock, log: Log) {
    this.clock = clock
    this.gas = new GasBudget({ ...options, clock, log })
    this.ends = new CountedEnds(clock)
    this.payers = new Payers(options, clock)
    this.flights = new Flights(options.maxInFlight, clock)
  }
}

/**
 * A payment in flight, from before the first chain request until its outcome is known. The gateway reserves its highest cost
 * meanwhile, so that a thousand concurrent payments cannot cost more than a thousand in a row.
 */
export class Flight implements Hold, InFlight {
  readonly identity: PaymentIdentity
  readonly storeId: string
  readonly payer: string
  readonly sinceMs: number
  readonly isKnown: boolean
  /** How much of the payer's balance in this asset the payer's earlier payments in flight will take. */
  readonly aheadAtomic: bigint
  state: 'held' | 'settling' | 'over' = 'held'
  isVerified = false
  account = ''
  isWaiting = false
  readonly #shared: SharedState
  readonly #of: Payer<Flight>
  #reserved = 0n

  constructor(shared: SharedState, identity: PaymentIdentity, storeId: string) {
    const { payer, asset, amountAtomic } = identity
    this.identity = identity
    this.storeId = storeId
    this.payer = payer
    this.sinceMs = shared.clock.now()
    this.isKnown = shared.payers.hasPaid(payer)
    this.#shared = shared
    this.#of = shared.payers.of(payer)
    const { rollups } = this.#of
    this.aheadAtomic = rollups.get(asset) ?? 0n
    rollups.set(asset, this.aheadAtomic + amountAtomic)
    this.#of.inFlight++
    shared.flights.add(this)
    this.#of.flights.add(this)
  }

  isIn(shared: SharedState): boolean {
    return this.#shared === shared
  }

  /**
   * Reserves the highest cost of the settlement, after the chain has verified the payment. If too many payments are in flight or
   * the account cannot pay for more, this payment may displace another verified one, which is then not charged. It displaces a
   * payment only if the place suffices to admit it. After a payer has displaced a payment, one of the payer's own payments has to
   * settle before the payer can displace another. Otherwise a payer that never completes its payments could displace any number of
   * payments.
   *
   * @param account the account that pays the fees, if the settler has several
   * @param affords how many settlements the account can pay for, including this one and all that wait for the account; no limit by
   * default
   * @returns why the payment is not admitted; `in_flight` also if another payment has displaced it
   */
  reserve(most: bigint, account = '', affords = Number.POSITIVE_INFINITY): NotAdmitted | undefined {
    if (this.state === 'over') return 'in_flight'
    const { gas, payers, flights, clock } = this.#shared
    const why = gas.reserve(this.storeId, most - this.#reserved)
    if (why !== undefined) return why
    // Checked last, so that a payment which is refused anyway displaces no other payment.
    const admission = this.isVerified
      ? 'free'
      : flights.verified(this, account, affords, !payers.owes(this.#of))
    if (admission === 'in_flight' || admission === 'means') {
      gas.settle(this.storeId, most - this.#reserved, 0n)
      return admission
    }
    if (admission === 'displaced') this.#of.displacedAtMs = clock.now()
    this.#reserved = this.#shared.lastReserved = most
    return undefined
  }

  /** Records whether this process has signed the transaction. From then on the account itself counts the highest cost. */
  signed(is: boolean): void {
    if (this.state !== 'over') this.#shared.flights.signed(this, is)
  }

  /** Records that a transaction of this payment was mined without effect and cost this much. Another transaction will cost more. */
  spent(gas: bigint): void {
    this.#shared.gas.settle(this.storeId, 0n, gas)
  }

  /** See {@link Hold.release}. */
  release(): void {
    if (this.state === 'held') this.finish(0n)
  }

  /** Records that the chain refused the payment before anything was sent. This counts as a failure of its payer. */
  refused(): void {
    if (this.state === 'over') return
    this.finish(0n)
    this.#shared.payers.failed(this.payer)
  }

  /** Begins the settlement, which then ends only by {@link end}. Returns false if the payment was released or displaced before. */
  begin(): boolean {
    if (this.state !== 'held') return false
    this.state = 'settling'
    return true
  }

  /**
   * Records the outcome of the settlement. A pending payment counts against its payer until the caller passes its outcome to
   * {@link Budgets.note}. It counts as in flight only while it can cost this installation gas. Otherwise a payer could spend the
   * same money elsewhere after verification and so use up the whole limit at no cost.
   *
   * @param gas its cost; the reserved amount by default
   */
  end(outcome: SettleOutcome, gas?: bigint): void {
    if (this.state === 'over') return
    const { ends, payers } = this.#shared
    if (isEnd(outcome)) ends.addOwn(this.identity.key, outcome, this.storeId, gas ?? this.#reserved)
    switch (outcome.status) {
      case 'pending':
        if (!isEnd(outcome)) return this.#stayOpen()
        // The payment may still land, but at no further cost to this installation.
        this.finish(gas)
        return payers.failed(this.payer)
      case 'rejected':
        return this.finish(0n)
      case 'settled':
        payers.paid(this.payer)
        return this.finish(gas)
      case 'failed_final':
        this.finish(gas)
        payers.failed(this.payer)
    }
  }

  /** Ends the flight. @param spent its cost; the reserved amount by default */
  finish(spent = this.#reserved): void {
    if (this.state === 'over') return
    this.state = 'over'
    const { payers, flights, openOnly, open } = this.#shared
    const { key, asset, amountAtomic } = this.identity
    flights.delete(this)
    openOnly.delete(this)
    if (open.get(key) === this) open.delete(key)
    const { rollups } = this.#of
    this.#of.flights.delete(this)
    const left = rollups.get(asset)! - amountAtomic
    if (left === 0n) rollups.delete(asset)
    else rollups.set(asset, left)
    this.#of.inFlight--
    payers.forgetIfIdle(this.payer, this.#of)
    this.#shared.gas.settle(this.storeId, this.#reserved, spent)
  }

  #stayOpen(): void {
    const { flights, openOnly, open } = this.#shared
    const { key } = this.identity
    if (this.#reserved === 0n) {
      flights.delete(this)
      openOnly.add(this)
    }
    open.get(key)?.finish()
    open.set(key, this)
  }
}

/** Limits what payments can cost: by payer, by store and day, and in number. */
export class Budgets {
  readonly #shared: SharedState
  readonly #log: Log
  /** Outcomes that recovery has found. The map is weak, so that an outcome that the ledger never records takes no memory. */
  readonly #found = new WeakMap<SettleOutcome, { readonly record: PaymentRecord; readonly gas?: bigint }>()

  constructor(options: BudgetsOptions) {
    const { clock = systemClock, log = silentLog } = options
    this.#log = log
    this.#shared = new SharedState(options, clock, log)
  }

  /** Admits a payment, before the first chain request for it. */
  take(identity: PaymentIdentity, storeId: string): Flight | NotAdmitted {
    const { payers, flights, gas } = this.#shared
    const { payer } = identity
    // Flights that no caller ended must not block this payer's new purchases.
    this.#sweep(payers.get(payer)?.flights ?? [])
    let why = this.#notAdmittedFor(payer)
    if (why !== undefined) {
      this.#sweep(flights)
      why = this.#notAdmittedFor(payer)
    }
    const isFull = why === 'in_flight'
    if (why !== undefined && !isFull) return why
    const noGas = gas.noGas(storeId)
    if (noGas !== undefined) return noGas
    if (this.#areTooManyOpen(payer)) return 'in_flight'
    return isFull && !flights.mayVerify(payer, storeId, payers.hasPaid(payer))
      ? 'in_flight'
      : new Flight(this.#shared, identity, storeId)
  }

  /** The flight of a hold that {@link Budgets.take} returned. */
  of(hold: Hold | undefined): Flight | undefined {
    return hold instanceof Flight && hold.isIn(this.#shared) ? hold : undefined
  }

  /**
   * Counts the outcome of a payment once recovery has found it and written it into the payment's row. Each outcome counts once,
   * however often recovery checks the payment. A transaction that was mined without effect counts when recovery first finds it.
   *
   * @param gas its cost; if unknown, the amount reserved for it, or for the last payment
   */
  note({ key, payer, storeId, state }: PaymentRecord, outcome: SettleOutcome, gas?: bigint): void {
    if (!isEnd(outcome)) return
    const { payers, ends, open, lastReserved } = this.#shared
    const flight = open.get(key)
    flight?.finish(gas)
    if ((state === outcome.status && state !== 'pending') || !ends.add(key, outcome)) return
    // If the payment was undone by a reorganization (blocks replaced by others), its gas is not counted again, because it
    // was counted when the payment first landed.
    if (flight === undefined && state !== 'reorged') this.#shared.gas.settle(storeId, 0n, gas ?? lastReserved)
    if (outcome.status === 'settled') payers.paid(payer)
    else payers.failed(payer)
  }

  /**
   * Keeps an outcome that recovery has found until it is in the ledger. If several processes find the same outcome, only the
   * process that writes it counts it.
   */
  found(record: PaymentRecord, outcome: SettleOutcome, gas?: bigint): void {
    this.#found.set(outcome, { record, ...(gas !== undefined && { gas }) })
  }

  /** See `Settler.booked`. */
  booked({ key }: Pick<PaymentRecord, 'key'>, outcome: SettleOutcome): void {
    const found = this.#found.get(outcome)
    if (found?.record.key === key) this.note(found.record, outcome, found.gas)
  }

  /**
   * Undoes the cost that the end of a flight has counted, because another process has written the row and counts the cost. See
   * `Settler.overtaken`.
   */
  overtaken({ key }: Pick<PaymentIdentity, 'key'>, outcome: SettleOutcome): void {
    const end = this.#shared.ends.takeBack(key, outcome)
    // A cost of an earlier day must not reduce today's sum.
    if (end?.isOfToday) this.#shared.gas.settle(end.storeId, 0n, -end.spent)
  }

  /**
   * Ends flights whose payments are no longer open in the database. Another process has concluded these payments and counted their
   * cost. See `Settler.forgetConcluded`.
   */
  async forgetConcluded(concludedOf: ConcludedOf): Promise<void> {
    const { open, payers } = this.#shared
    // A sweep that makes room skips open flights that no longer count as in flight, so this sweep removes them.
    this.#sweep(open.values())
    const stayed = new Map([...open].slice(0, MAX_CHECKED))
    if (stayed.size === 0) return
    for (const record of await concludedOf([...stayed.keys()])) {
      const flight = stayed.get(record.key)!
      if (flight.state === 'over') continue
      // The cost is 0 here, because the process that writes the payment's end into the row counts it, even if this process ends
      // before.
      flight.finish(0n)
      // The payment was freed, and may have been claimed again.
      const isUnsent = record.state === 'rejected' || record.state === 'claimed'
      if (record.state === 'failed_final') payers.failed(flight.payer)
      else if (!isUnsent) payers.paid(record.payer)
    }
    // Moves the checked payments to the end, so that the next round starts with the others.
    for (const [key, flight] of stayed) {
      if (open.get(key) !== flight) continue
      open.delete(key)
      open.set(key, flight)
    }
  }

  /** Whether the payer has failed so often that the gateway refuses its payments. */
  isSpent(address: string): boolean {
    return this.#shared.payers.isSpent(address)
  }

  /** Number of payments in flight, including payments that are still being verified. */
  get inFlight(): number {
    return this.#shared.flights.taken
  }

  /** Number of verified payments in flight that the account has not signed yet. @param account see {@link Flight.reserve} */
  waitingFor(account = ''): number {
    return this.#shared.flights.waitingFor(account)
  }

  /** Reserves gas of a store's day for a transaction that is no payment. @returns why the day has no room for it */
  reserveGas(storeId: string, gas: bigint): NotAdmitted | undefined {
    return this.#shared.gas.reserve(storeId, gas)
  }

  /** Counts what such a transaction cost, instead of what was reserved. */
  countGas(storeId: string, reserved: bigint, spent: bigint): void {
    this.#shared.gas.settle(storeId, reserved, spent)
  }

  /** Reads the day's costs from before this process began. @throws when the gas book cannot be read */
  start(): Promise<void> {
    return this.#shared.gas.start()
  }

  /** Sentences for the operator about stores that get no more settlements today. */
  diagnose(): string[] {
    return this.#shared.gas.diagnose()
  }

  close(): Promise<void> {
    return this.#shared.gas.close()
  }

  #notAdmittedFor(address: string): NotAdmitted | undefined {
    const { payers, flights } = this.#shared
    // Checked last, so that a payment which is refused anyway displaces no other payment.
    return payers.refusal(address) ?? (flights.isFull ? 'in_flight' : undefined)
  }

  #areTooManyOpen(address: string): boolean {
    const { payers, openOnly } = this.#shared
    if (openOnly.size < MAX_OPEN) return false
    if (!payers.hasPaid(address)) return true
    return openOnly.size >= 2 * MAX_OPEN && (payers.get(address)?.inFlight ?? 0) > 0
  }

  /** Ends flights whose payments cannot land any more and that no caller ended, because a process ended or hangs. */
  #sweep(flights: Iterable<Flight>): void {
    const { clock, open } = this.#shared
    for (const flight of flights) {
      const { key, validBeforeMs } = flight.identity
      // After its expiry, an unsent payment cannot be sent any more.
      const goneAfterMs = flight.state === 'held' ? 0 : GONE_AFTER_MS
      if (clock.now() < validBeforeMs + goneAfterMs) continue
      this.#log.warn({ payment: key }, 'the outcome of a payment was never reported, so its slot is freed')
      // Recovery counts the cost of an open payment when it finds the outcome.
      const isOpen = open.get(key) === flight
      flight.finish(flight.state === 'held' || isOpen ? 0n : undefined)
    }
  }
}
