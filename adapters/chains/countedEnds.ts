import { LRUCache } from 'lru-cache'
import type { PaymentKey } from '../../core/domain/payment.ts'
import type { SettleOutcome } from '../../core/ports/chains/settler.ts'
import type { Clock } from '../../core/ports/clock.ts'

/** Payments whose ends are remembered. */
const MAX_REMEMBERED = 10_000

/** What the end of a flight has counted as its cost. */
interface OwnEnd {
  readonly key: PaymentKey
  readonly storeId: string
  readonly spent: bigint
  /** In UTC, since 1970. */
  readonly day: number
}

/** Whether it is known what a payment has cost: one that was mined for nothing has cost its fee, whatever may still come of it. */
export const isEnd = (outcome: SettleOutcome): boolean =>
  outcome.status === 'pending' ? outcome.message !== undefined : outcome.status !== 'rejected'

/** Ends that were counted here, by payment: recovery looks until an end is booked, and once more to be sure. */
export class CountedEnds {
  readonly #counted = new LRUCache<string, true>({ max: MAX_REMEMBERED })
  /** By the outcome itself: what nobody books is forgotten with it. */
  readonly #own = new WeakMap<SettleOutcome, OwnEnd>()
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @returns false when it was counted before */
  add(key: PaymentKey, outcome: SettleOutcome): boolean {
    const end = endOf(key, outcome)
    if (this.#counted.has(end)) return false
    this.#counted.set(end, true)
    return true
  }

  /** The same of a flight's own end, which is taken back where somebody else turns out to count it. */
  addOwn(key: PaymentKey, outcome: SettleOutcome, storeId: string, spent: bigint): void {
    this.#counted.set(endOf(key, outcome), true)
    this.#own.set(outcome, { key, storeId, spent, day: this.#today() })
  }

  /** @returns what it had counted; undefined where it was no flight's end */
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
