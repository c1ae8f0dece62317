import type { Clock } from '../../core/ports/clock.ts'

/**
 * Where all places are taken, or all that the settling account can pay for, a payment that has waited for its seller for so long gives
 * way to one of a store that has fewer. A store whose API never answers, and who buys from himself, would otherwise hold all of them for
 * nothing. What gave way is not charged.
 */
const GIVES_WAY_AFTER_MS = 2_000
/**
 * Where those that are looked at have taken all room, one that has been looked at for so long gives way to anybody who has fewer: wallets
 * that have paid once, and as many stores, cost their owner nothing much, and a chain or a facilitator that is slow would have them hold
 * all of it for as long as they come again. Longer than a look takes that is answered, so that hardly anybody else meets it.
 */
const LOOKED_AT_MS = 5_000

/** What a place knows of the payment that has it. Its marks are kept by {@link Places}. */
export interface Placed {
  readonly storeId: string
  readonly payer: string
  readonly sinceMs: number
  /** Its payer has paid here before. Of those who have not anybody can be as many as he likes, for a signature each. */
  readonly isKnown: boolean
  /** Only what is held gives way. */
  readonly state: 'held' | 'settling' | 'over'
  /** The chain has called it good: what its settlement may cost is set apart. */
  isApart: boolean
  /** That pays it. */
  account: string
  /** Whether that one is still to sign. */
  isWaiting: boolean
  /** Gives its place back. @param spent what it cost */
  finish(spent: bigint): void
}

/**
 * The places of payments on their way on one network, and who gives way to whom. Of payments that are only looked at anybody makes as many
 * as he likes, in the name of any store: they are counted apart from those that the chain has called good, and each gives way to its own
 * kind.
 */
export class Places<Flight extends Placed> implements Iterable<Flight> {
  readonly #maxInFlight: number
  readonly #clock: Clock
  readonly #flights = new Set<Flight>()
  /** Of each store, how many of them. */
  readonly #ofStores = createCount()
  /** And how many good ones, of all accounts and of each. */
  readonly #goodOf = createCount()
  /** Of those, how many wait for each account. */
  readonly #waiting = createCount()
  /** Of each payer, how many are looked at. */
  readonly #lookedAtOf = createCount()
  /** And of all those who have paid before. */
  #knownLookedAt = 0
  #good = 0

  constructor(maxInFlight: number, clock: Clock) {
    this.#maxInFlight = maxInFlight
    this.#clock = clock
  }

  /** Those too that are still looked at. */
  get taken(): number {
    return this.#flights.size
  }

  get isFull(): boolean {
    return this.#flights.size >= this.#maxInFlight
  }

  /** Good payments for which the account is still to sign. */
  waitingFor(account: string): number {
    return this.#waiting.get(account)
  }

  [Symbol.iterator](): SetIterator<Flight> {
    return this.#flights[Symbol.iterator]()
  }

  add(flight: Flight): void {
    this.#flights.add(flight)
    this.#ofStores.add(flight.storeId, 1)
    this.#countLookedAt(flight, 1)
  }

  delete(flight: Flight): void {
    // One that has left its place before it is over.
    if (!this.#flights.delete(flight)) return
    this.#ofStores.add(flight.storeId, -1)
    if (!flight.isApart) return this.#countLookedAt(flight, -1)
    this.#countGood(flight, -1)
    this.#wait(flight, false)
  }

  /**
   * The chain has called it good. Where good ones have all places, or all that the account can pay for, one of them gives way to it:
   * only if that one is enough.
   *
   * @param account for which it waits
   * @param affords how many the account can pay for, this one among them
   * @param mayDisplace whether anybody gives way to it
   * @returns whether somebody did, or what is missing
   */
  setApart(
    flight: Flight,
    account: string,
    affords: number,
    mayDisplace: boolean,
  ): 'free' | 'displaced' | 'in_flight' | 'means' {
    const waiting = this.#waiting.get(account)
    const isShort = waiting >= affords
    const isFull = this.#good >= this.#maxInFlight
    const has = (of?: string): number => this.#goodOf.get(keyOf(flight.storeId, of)) + 1
    let gives: Flight | undefined
    if (isShort || isFull) {
      const of = isShort ? account : undefined
      if (mayDisplace && waiting <= affords)
        gives = this.#whoGivesWayTo({
          ...{ isApart: true, has: has(of), afterMs: GIVES_WAY_AFTER_MS },
          ...{ account: of, hasInAll: isFull ? has() : 0 },
        })
      if (gives === undefined) return isShort ? 'means' : 'in_flight'
      gives.finish(0n)
    }
    this.#countLookedAt(flight, -1)
    flight.isApart = true
    flight.account = account
    this.#countGood(flight, 1)
    this.#wait(flight, true)
    return gives === undefined ? 'free' : 'displaced'
  }

  /** Whether a transaction of it is signed: the account counts itself what that one may cost. */
  signed(flight: Flight, is: boolean): void {
    // Who has left his place is waited for by nobody.
    if (flight.isApart && this.#flights.has(flight)) this.#wait(flight, !is)
  }

  /**
   * Whether one more may be looked at where all places are taken. Anybody can have as many as he likes that never land, so that nobody
   * whose payment is good gives way before this one is found good as well: there is as much room again for those that are looked at.
   * Who has not paid before gives way at once to whoever has, while those have no more than half of that room: junk keeps no buyer out who
   * comes again, and wallets that have paid once keep out no new one. He himself gives way to new ones only by {@link LOOKED_AT_MS}.
   */
  mayBeLookedAt(payer: string, storeId: string, isKnown: boolean): boolean {
    // Each of its own may be found good.
    const all = this.#ofStores.get(storeId) + 1
    const rule = { isApart: false, has: all - this.#goodOf.get(keyOf(storeId)), afterMs: GIVES_WAY_AFTER_MS }
    const isFirst = isKnown && this.#knownLookedAt < this.#maxInFlight
    const lookedAt =
      (isFirst ? this.#whoGivesWayTo({ isApart: false, isKnown: false, has: 0, afterMs: 0 }) : undefined) ??
      this.#whoGivesWayTo(isKnown ? rule : { ...rule, isKnown: false }) ??
      this.#whoIsLookedAtForLong(payer)
    if (this.#flights.size < 2 * this.#maxInFlight) {
      const good = { isApart: true, has: all, afterMs: GIVES_WAY_AFTER_MS }
      return (lookedAt ?? this.#whoGivesWayTo(good)) !== undefined
    }
    lookedAt?.finish(0n)
    return lookedAt !== undefined
  }

  /** Of those who give way by a rule the one whose store has most of its kind. */
  #whoGivesWayTo({ isApart, has, afterMs, isKnown, account, hasInAll = 0 }: Rule): Flight | undefined {
    const sinceMs = this.#clock.now() - afterMs
    let gives: Flight | undefined
    let most = has
    for (const flight of this.#flights) {
      if (flight.isApart !== isApart || flight.state !== 'held' || flight.sinceMs > sinceMs) continue
      if (isKnown !== undefined && flight.isKnown !== isKnown) continue
      if (account !== undefined && flight.account !== account) continue
      const { storeId } = flight
      const good = this.#goodOf.get(keyOf(storeId, account))
      if (isApart && this.#goodOf.get(keyOf(storeId)) <= hasInAll) continue
      const count = isApart ? good : this.#ofStores.get(storeId) - good
      if (count > most) [gives, most] = [flight, count]
    }
    return gives
  }

  /**
   * Of those who have been looked at for long the one whose payer has most of them, and more than the one who comes: of whom nobody knows,
   * or of those who have paid where these have more than their half.
   */
  #whoIsLookedAtForLong(payer: string): Flight | undefined {
    const sinceMs = this.#clock.now() - LOOKED_AT_MS
    const isKnownFirst = this.#knownLookedAt > this.#maxInFlight
    let gives: Flight | undefined
    let most = this.#lookedAtOf.get(payer)
    for (const flight of this.#flights) {
      if (flight.isApart || flight.state !== 'held' || flight.sinceMs > sinceMs) continue
      const count = this.#lookedAtOf.get(flight.payer)
      if (count <= this.#lookedAtOf.get(payer)) continue
      const isOtherKind = gives !== undefined && gives.isKnown !== flight.isKnown
      if (isOtherKind ? flight.isKnown === isKnownFirst : count > most) [gives, most] = [flight, count]
    }
    return gives
  }

  #countLookedAt({ payer, isKnown }: Flight, more: 1 | -1): void {
    this.#lookedAtOf.add(payer, more)
    if (isKnown) this.#knownLookedAt += more
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

/** Who gives way. */
interface Rule {
  /** Whether one of the good ones, or of those that are still looked at. */
  readonly isApart: boolean
  /** How many a store has with the one that needs the room. */
  readonly has: number
  /** For how long it has to have its place. */
  readonly afterMs: number
  /** Whether one whose payer has paid before, or has not; either when absent. */
  readonly isKnown?: boolean
  /** Leaves out those by which nothing would be won, as they wait for another. */
  readonly account?: string | undefined
  /** How many good ones that store has, whichever account they wait for; left out where nothing but the account is short. */
  readonly hasInAll?: number
}

/** A store, or what it has of one account. */
const keyOf = (storeId: string, account?: string): string =>
  account === undefined ? storeId : `${storeId} ${account}`

/** How many there are of each. */
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
