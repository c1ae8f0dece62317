import { LRUCache } from 'lru-cache'
import type { Clock } from '../../core/ports/clock.ts'

/**
 * How long a payment waits for its seller, in ms, before a payment of a store with fewer payments can displace it. That happens
 * only if too many payments are in flight or the settling account cannot pay for more. Otherwise a store whose API never responds,
 * and that buys from itself, could use up the whole limit at no cost. A displaced payment is not charged.
 */
const DISPLACEABLE_AFTER_MS = 2_000
/**
 * How long a payment is in verification, in ms, before a payer with fewer payments can displace it. That happens only if payments
 * in verification have reached their limit. Otherwise a seller with many wallets and stores that paid once could use up the whole
 * limit, with a slow chain or facilitator. The time is longer than a usual verification, so ordinary payments are rarely displaced.
 */
const MAX_VERIFYING_MS = 5_000

/**
 * The fields of a payment in flight that {@link Flights} reads. {@link Flights} itself updates `isVerified`, `account` and
 * `isWaiting`.
 */
export interface InFlight {
  readonly storeId: string
  readonly payer: string
  readonly sinceMs: number
  /** Whether the payer has paid here before. A new payer costs an attacker nothing but a signature. */
  readonly isKnown: boolean
  /** Only a held payment can be displaced. */
  readonly state: 'held' | 'settling' | 'over'
  /** Whether the chain has verified the payment and its highest cost is reserved. */
  isVerified: boolean
  /** The account that pays the payment's gas. */
  account: string
  /** Whether that account has not signed the payment yet. */
  isWaiting: boolean
  /** Ends the flight. @param spent its cost */
  finish(spent: bigint): void
}

/**
 * The payments in flight on one network, with the rules by which a payment displaces another one ("gives way"). An attacker can
 * make unverified payments in the name of any store at no cost. So they are counted apart from verified ones, and each kind
 * displaces only its own kind.
 */
export class Flights<Flight extends InFlight> implements Iterable<Flight> {
  readonly #maxInFlight: number
  readonly #clock: Clock
  readonly #flights = new Set<Flight>()
  /** Payments in flight by store. */
  readonly #ofStores = createCount()
  /** Verified payments by store, and by store and account. */
  readonly #goodOf = createCount()
  /** Verified payments that wait for each account. */
  readonly #waiting = createCount()
  /** Payments in verification by payer. */
  readonly #verifyingOf = createCount()
  /** Payments in verification of all payers that have paid before. */
  #knownVerifying = 0
  #good = 0

  constructor(maxInFlight: number, clock: Clock) {
    this.#maxInFlight = maxInFlight
    this.#clock = clock
  }

  /** Number of payments in flight, including payments that are still being verified. */
  get taken(): number {
    return this.#flights.size
  }

  get isFull(): boolean {
    return this.#flights.size >= this.#maxInFlight
  }

  /** Number of verified payments that the account has not signed yet. */
  waitingFor(account: string): number {
    return this.#waiting.get(account)
  }

  [Symbol.iterator](): SetIterator<Flight> {
    return this.#flights[Symbol.iterator]()
  }

  add(flight: Flight): void {
    this.#flights.add(flight)
    this.#ofStores.add(flight.storeId, 1)
    this.#countVerifying(flight, 1)
  }

  delete(flight: Flight): void {
    // The flight may have been removed before it ends.
    if (!this.#flights.delete(flight)) return
    this.#ofStores.add(flight.storeId, -1)
    if (!flight.isVerified) return this.#countVerifying(flight, -1)
    this.#countGood(flight, -1)
    this.#wait(flight, false)
  }

  /**
   * Records that the chain has verified the payment. If too many verified payments are in flight or the account cannot pay for
   * more, this payment displaces one of them, but only if one suffices.
   *
   * @param account the account that will sign for it
   * @param affords how many payments the account can pay for, including this one
   * @param mayDisplace whether another payment may give way to this one
   * @returns whether another payment gave way, or which limit is reached
   */
  verified(
    flight: Flight,
    account: string,
    affords: number,
    mayDisplace: boolean,
  ): 'free' | 'displaced' | 'in_flight' | 'means' {
    const waiting = this.#waiting.get(account)
    const isShort = waiting >= affords
    const isFull = this.#good >= this.#maxInFlight
    const has = (of?: string): number => this.#goodOf.get(keyOf(flight.storeId, of)) + 1
    let displaced: Flight | undefined
    if (isShort || isFull) {
      const of = isShort ? account : undefined
      if (mayDisplace && waiting <= affords)
        displaced = this.#toDisplaceFor({
          isVerified: true,
          has: has(of),
          afterMs: DISPLACEABLE_AFTER_MS,
          account: of,
          hasInAll: isFull ? has() : 0,
        })
      if (displaced === undefined) return isShort ? 'means' : 'in_flight'
      displaced.finish(0n)
    }
    this.#countVerifying(flight, -1)
    flight.isVerified = true
    flight.account = account
    this.#countGood(flight, 1)
    this.#wait(flight, true)
    return displaced === undefined ? 'free' : 'displaced'
  }

  /** Records whether the payment's transaction is signed. From then on the account itself counts the highest cost. */
  signed(flight: Flight, is: boolean): void {
    // A payment that is no longer in flight does not wait.
    if (flight.isVerified && this.#flights.has(flight)) this.#wait(flight, !is)
  }

  /**
   * Whether one more payment may be verified although the limit is reached. An unverified payment displaces no verified one,
   * because a payer can send many payments that never land. Instead, as many further payments may be in verification as may be in
   * flight. When these reach their limit, a payer that has paid before displaces one that has not, as long as payers that have paid
   * use at most half of the places. So junk does not keep out returning buyers, and wallets that have paid once do not keep out new
   * buyers. New payers displace payers that have paid only after {@link MAX_VERIFYING_MS}.
   */
  mayVerify(payer: string, storeId: string, isKnown: boolean): boolean {
    // Each payment of the store may still be in verification.
    const all = this.#ofStores.get(storeId) + 1
    const rule = {
      isVerified: false,
      has: all - this.#goodOf.get(keyOf(storeId)),
      afterMs: DISPLACEABLE_AFTER_MS,
    }
    const isFirst = isKnown && this.#knownVerifying < this.#maxInFlight
    const lookedAt =
      (isFirst
        ? this.#toDisplaceFor({ isVerified: false, isKnown: false, has: 0, afterMs: 0 })
        : undefined) ??
      this.#toDisplaceFor(isKnown ? rule : { ...rule, isKnown: false }) ??
      this.#verifyingForLong(payer)
    if (this.#flights.size < 2 * this.#maxInFlight) {
      const good = { isVerified: true, has: all, afterMs: DISPLACEABLE_AFTER_MS }
      return (lookedAt ?? this.#toDisplaceFor(good)) !== undefined
    }
    lookedAt?.finish(0n)
    return lookedAt !== undefined
  }

  /** Returns, of the payments that a rule allows to be displaced, the one whose store has the most payments of that kind. */
  #toDisplaceFor({ isVerified, has, afterMs, isKnown, account, hasInAll = 0 }: Rule): Flight | undefined {
    const sinceMs = this.#clock.now() - afterMs
    let displaced: Flight | undefined
    let most = has
    for (const flight of this.#flights) {
      if (flight.isVerified !== isVerified || flight.state !== 'held' || flight.sinceMs > sinceMs) continue
      if (isKnown !== undefined && flight.isKnown !== isKnown) continue
      if (account !== undefined && flight.account !== account) continue
      const { storeId } = flight
      const good = this.#goodOf.get(keyOf(storeId, account))
      if (isVerified && this.#goodOf.get(keyOf(storeId)) <= hasInAll) continue
      const count = isVerified ? good : this.#ofStores.get(storeId) - good
      if (count > most) [displaced, most] = [flight, count]
    }
    return displaced
  }

  /**
   * Returns, of the payments in verification for longer than {@link MAX_VERIFYING_MS}, the one whose payer has the most. That payer
   * must have more than the new payer. If payers that have paid use more than their half of the places, their payments come first.
   * Otherwise the payments of the other payers come first.
   */
  #verifyingForLong(payer: string): Flight | undefined {
    const sinceMs = this.#clock.now() - MAX_VERIFYING_MS
    const isKnownFirst = this.#knownVerifying > this.#maxInFlight
    let displaced: Flight | undefined
    let most = this.#verifyingOf.get(payer)
    for (const flight of this.#flights) {
      if (flight.isVerified || flight.state !== 'held' || flight.sinceMs > sinceMs) continue
      const count = this.#verifyingOf.get(flight.payer)
      if (count <= this.#verifyingOf.get(payer)) continue
      const isOtherKind = displaced !== undefined && displaced.isKnown !== flight.isKnown
      if (isOtherKind ? flight.isKnown === isKnownFirst : count > most) [displaced, most] = [flight, count]
    }
    return displaced
  }

  #countVerifying({ payer, isKnown }: Flight, more: 1 | -1): void {
    this.#verifyingOf.add(payer, more)
    if (isKnown) this.#knownVerifying += more
  }

  #countGood({ storeId, account }: Flight, more: 1 | -1): void {
    this.#good += more
    this.#goodOf.add(keyOf(storeId), more)
    this.#goodOf.add(keyOf(storeId, account), more)
  }

  #wait(flight: Flight, is: boolean): void {
    if (is !== flight.isWaiting) this.#waiting.add(flight.account, is ? 1 : -1)
    flight.isWaiting = is
  }
}

/** A rule for the payments that may be displaced. */
interface Rule {
  /** Whether the rule is for verified payments or for payments in verification. */
  readonly isVerified: boolean
  /** How many payments the new payment's store has, including the new payment. */
  readonly has: number
  /** How long a payment has to have been in flight, in ms. */
  readonly afterMs: number
  /** If given, only payments whose payer has paid before (true) or has not (false). */
  readonly isKnown?: boolean
  /** If given, only payments that wait for this account, because other payments would free nothing. */
  readonly account?: string | undefined
  /** How many verified payments the new payment's store has over all accounts; 0 if only the account is short. */
  readonly hasInAll?: number
}

/** Key of a store, or of a store and an account. */
const keyOf = (storeId: string, account?: string): string =>
  account === undefined ? storeId : `${storeId} ${account}`

/** Counts by key. */
function createCount() {
  const counts = new Map<string, number>()
  return {
    get: (key: string): number => counts.get(key) ?? 0,
    add(key: string, more: number): void {
      const count = (counts.get(key) ?? 0) + more
      if (count === 0) counts.delete(key)
      else counts.set(key, count)
    },
  }
}

/**
 * Maximum number of payers whose failures are remembered, and of payers that have paid. Payers with payments in flight are always
 * remembered.
 */
const MAX_REMEMBERED = 10_000
/** How many payers are checked to find one that can be dropped. */
const MAX_PASSED_OVER = 16

/** Limits for one payer. */
export interface PayerLimits {
  /** Maximum number of payments of one payer in flight. */
  readonly maxInFlightPerPayer: number
  /** Failures that a single payer may cause per window. A payment in flight counts as a failure until it has settled. */
  readonly failureBudget: { readonly failures: number; readonly windowMs: number }
}

/** The remembered state of a payer. */
export interface Payer<Flight> {
  inFlight: number
  readonly flights: Set<Flight>
  /** Sum of the payments in flight, by asset. */
  readonly rollups: Map<string, bigint>
  /** Times of the failures within the window, oldest first, in ms since 1970. */
  readonly failedAtMs: number[]
  /** When one of this payer's payments last displaced another payment; null once one of them has settled since. */
  displacedAtMs: number | null
}

/** The payers on one network by address, with their payments in flight and failures, and whether they have paid. */
export class Payers<Flight> {
  readonly #limits: PayerLimits
  readonly #clock: Clock
  readonly #payers = new Map<string, Payer<Flight>>()
  /** Payers that have paid since this process began. */
  readonly #known = new LRUCache<string, true>({ max: MAX_REMEMBERED })

  constructor(limits: PayerLimits, clock: Clock) {
    this.#limits = limits
    this.#clock = clock
  }

  get(address: string): Payer<Flight> | undefined {
    return this.#payers.get(address)
  }

  /** Returns the state of this address, and adds it if it is new. */
  of(address: string): Payer<Flight> {
    let payer = this.#payers.get(address)
    if (payer === undefined) {
      if (this.#payers.size >= MAX_REMEMBERED) this.#forgetOne()
      payer = { inFlight: 0, flights: new Set(), rollups: new Map(), failedAtMs: [], displacedAtMs: null }
      this.#payers.set(address, payer)
    }
    return payer
  }

  /** Whether a payment of this payer has settled since this process began. */
  hasPaid(address: string): boolean {
    return this.#known.has(address)
  }

  paid(address: string): void {
    this.#known.set(address, true)
    const payer = this.#payers.get(address)
    if (payer !== undefined) payer.displacedAtMs = null
  }

  failed(address: string): void {
    this.of(address).failedAtMs.push(this.#clock.now())
  }

  /** Whether the payer has failed so often that the gateway refuses its payments. */
  isSpent(address: string): boolean {
    const payer = this.#payers.get(address)
    return payer !== undefined && this.#failuresOf(payer) >= this.#limits.failureBudget.failures
  }

  /** Whether one of this payer's payments displaced another one, and none of the payer's payments has settled since. */
  owes({ displacedAtMs }: Payer<Flight>): boolean {
    return displacedAtMs !== null && this.#clock.now() < displacedAtMs + this.#limits.failureBudget.windowMs
  }

  /** Why the payer may have no further payment in flight. */
  refusal(address: string): 'payer_failures' | 'payer_in_flight' | undefined {
    const payer = this.#payers.get(address)
    if (payer === undefined) return undefined
    const { failureBudget, maxInFlightPerPayer } = this.#limits
    const failures = this.#failuresOf(payer)
    const { inFlight } = payer
    this.forgetIfIdle(address, payer)
    if (failures >= failureBudget.failures) return 'payer_failures'
    return inFlight >= maxInFlightPerPayer || failures + inFlight >= failureBudget.failures
      ? 'payer_in_flight'
      : undefined
  }

  /** Drops a payer without payments in flight or failures. */
  forgetIfIdle(address: string, payer: Payer<Flight>): void {
    const isIdle = payer.inFlight === 0 && payer.failedAtMs.length === 0 && !this.owes(payer)
    if (isIdle && this.#payers.get(address) === payer) this.#payers.delete(address)
  }

  #failuresOf({ failedAtMs }: Payer<Flight>): number {
    const since = this.#clock.now() - this.#limits.failureBudget.windowMs
    while (failedAtMs.length > 0 && failedAtMs[0]! <= since) failedAtMs.shift()
    return failedAtMs.length
  }

  #forgetOne(): void {
    // Payers that cannot be dropped now go to the end, so that the next search does not check them first.
    let left = MAX_PASSED_OVER
    for (const [address, payer] of this.#payers) {
      if (payer.inFlight === 0) return void this.#payers.delete(address)
      if (left-- === 0) return
      this.#payers.delete(address)
      this.#payers.set(address, payer)
    }
  }
}
