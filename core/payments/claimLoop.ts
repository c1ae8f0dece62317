import type { PaymentRecord } from '../domain/payment.ts'
import type { Ledger } from '../ports/store/ledger.ts'
import type { PaidCall } from './payments.ts'
import { failedForGood, inUse, stillPending, wasRefunded } from './refusals.ts'

/** What a request with a payment does next. */
export type Verdict<T> =
  /** Claim the payment, because no process works on it and nothing was sent for it. */
  | 'claim'
  /** Wait until the payment's row changes, at most `waitMs`, because another request works on the payment. */
  | { readonly seen: PaymentRecord; readonly waitMs: number }
  /** Stop, because the request has won the claim, or gets what the payment has bought. */
  | { readonly result: T }

/** A request with a payment that other requests may have too. The request is a call of a link, or pays a payment session. */
export interface Claimant<T> {
  /**
   * Decides from the payment's row what the request does next.
   *
   * @param seen undefined before the row was read, and after the payment has become free again
   * @throws the error for the request
   */
  judge(seen: PaymentRecord | undefined): Verdict<T> | Promise<Verdict<T>>
  claim(): Promise<{ readonly won: PaidCall } | { readonly lost: PaymentRecord }>
  won(paid: PaidCall): T | Promise<T>
  /** Waits until the row changes. @returns undefined if the time is over or the caller has disconnected */
  changed(seen: PaymentRecord, waitMs: number): Promise<PaymentRecord | undefined>
  /** Called if the row has not changed in time. @throws the error for the request */
  late(seen: PaymentRecord): T
}

/**
 * Claims a payment, or waits for the request that has claimed it. Ends when this request has won the claim, gets what was bought,
 * or is refused.
 *
 * @param seen the row, if this request has already lost a claim
 */
export async function claimOrFollow<T>(claimant: Claimant<T>, seen?: PaymentRecord): Promise<T> {
  for (;;) {
    const verdict = await claimant.judge(seen)
    if (verdict === 'claim') {
      const claimed = await claimant.claim()
      if ('won' in claimed) return claimant.won(claimed.won)
      seen = claimed.lost
    } else if ('result' in verdict) {
      return verdict.result
    } else {
      seen = verdict.waitMs > 0 ? await claimant.changed(verdict.seen, verdict.waitMs) : undefined
      if (seen === undefined) return claimant.late(verdict.seen)
    }
  }
}

/**
 * The verdict on a payment that is free, in work, failed or refunded. It is the same for every claimant.
 *
 * @param isSame whether the payment was claimed for the same request
 * @returns undefined for a charged payment, because only the claimant can decide what the payment has bought
 * @throws `payment_already_used` for a different request, `settlement_pending` while only the chain has the outcome
 */
export function judgeUncharged(payment: PaymentRecord, isSame: boolean): 'claim' | 'wait' | undefined {
  switch (payment.state) {
    case 'rejected':
      return 'claim'
    case 'claimed':
    case 'settling':
      if (!isSame) throw inUse(payment)
      return 'wait'
    case 'pending':
    case 'reorged':
      throw isSame ? stillPending(payment) : inUse(payment)
    case 'failed_final':
      throw failedForGood(payment)
    case 'refunded':
      throw wasRefunded(payment)
    default:
      return undefined
  }
}

/** First and last pause between two reads of a row that requests wait for, in ms. Each pause is twice as long as the one before. */
const FIRST_PAUSE_MS = 50
const LAST_PAUSE_MS = 500

/** A payment that requests wait for. One read serves all these requests. */
interface Watched {
  readonly key: string
  readonly waiting: Set<(record: PaymentRecord) => void>
  timer: NodeJS.Timeout
  pauseMs: number
}

/** Waits until rows change, by polling them. */
export class ChangeWatch {
  readonly #ledger: Pick<Ledger, 'find'>
  readonly #watched = new Map<number, Watched>()

  constructor(ledger: Pick<Ledger, 'find'>) {
    this.#ledger = ledger
  }

  /** @returns the payment when its state, claim or response differs from `seen`. Undefined if the time is over */
  async changed(seen: PaymentRecord, waitMs: number): Promise<PaymentRecord | undefined> {
    const endMs = performance.now() + waitMs
    for (;;) {
      const leftMs = endMs - performance.now()
      if (leftMs <= 0) return undefined
      const record = await this.#nextRead(seen, leftMs)
      if (record === undefined || hasChanged(seen, record)) return record
    }
  }

  /** Notes that this process has changed a row, so that the row is read at once for the requests that wait for it. */
  notify(row: number): void {
    const watched = this.#watched.get(row)
    if (watched === undefined) return
    clearTimeout(watched.timer)
    watched.pauseMs = FIRST_PAUSE_MS
    watched.timer = setTimeout(() => void this.#read(row), 0)
  }

  #watch(row: number, key: string): Watched {
    const known = this.#watched.get(row)
    if (known !== undefined) return known
    const timer = setTimeout(() => void this.#read(row), FIRST_PAUSE_MS)
    const fresh: Watched = { key, waiting: new Set(), timer, pauseMs: FIRST_PAUSE_MS }
    this.#watched.set(row, fresh)
    return fresh
  }

  async #read(row: number): Promise<void> {
    const watched = this.#watched.get(row)
    if (watched === undefined) return
    if (watched.waiting.size === 0) return void this.#watched.delete(row)
    // While the database is down, the requests keep waiting.
    const { timer } = watched
    const record = await this.#ledger.find(watched.key).catch(() => undefined)
    // If `notify` has scheduled a read meanwhile, this read does not schedule another one.
    if (watched.timer === timer) {
      watched.pauseMs = Math.min(2 * watched.pauseMs, LAST_PAUSE_MS)
      watched.timer = setTimeout(() => void this.#read(row), watched.pauseMs)
    }
    if (record === undefined) return
    const waiting = [...watched.waiting]
    watched.waiting.clear()
    for (const resume of waiting) resume(record)
  }

  /** The next read of the row, which several requests share. Undefined if the time is over first. */
  #nextRead({ row, key }: PaymentRecord, waitMs: number): Promise<PaymentRecord | undefined> {
    const { waiting } = this.#watch(row, key)
    return new Promise((resolve) => {
      const resume = (record: PaymentRecord) => {
        clearTimeout(timeout)
        resolve(record)
      }
      const timeout = setTimeout(() => {
        waiting.delete(resume)
        resolve(undefined)
      }, waitMs)
      waiting.add(resume)
    })
  }
}

const hasChanged = (seen: PaymentRecord, now: PaymentRecord): boolean =>
  seen.state !== now.state || seen.purchaseId !== now.purchaseId || seen.hasResponse !== now.hasResponse
