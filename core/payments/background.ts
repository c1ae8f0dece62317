import { notCollected, type PaymentRecord, type PaymentState } from '../domain/payment.ts'
import type { Log } from '../ports/log.ts'
import { isDatabaseDown } from '../ports/refusals.ts'
import type { Ledger, PaymentChange } from '../ports/store/ledger.ts'
import type { ChangeWatch } from './claimLoop.ts'
import type { OpenCalls, OwnLease } from './openCalls.ts'
import type { DeliverablePayment } from './payments.ts'
import { deliverReorged } from './reconciliation.ts'
import * as rules from './rules.ts'

/** Pause between two probes of a database that is down, in ms. One waiting task probes for all waiting tasks. */
const RETRY_STORE_MS = 1_000
/** Pause before each retry of a write that failed although the database is up, in ms. */
const RETRY_PAUSES_MS = [200, 1_000, 5_000, 15_000, 30_000, 60_000]
/**
 * Maximum claims with an unknown result that are looked up once the database is back. There is a maximum, because any caller can
 * cause such claims.
 */
const MAX_DOUBTS = 1_000
/** States in which a call works on a payment. Recovery works on pending payments. */
const ofCalls: readonly PaymentState[] = ['claimed', 'settling', 'settled']
/** Maximum rows that a check for orphaned payments reads. */
const ORPHAN_PAGE = 1_000
/**
 * Minimum time between two early checks of the same payment, in ms. A request with an open payment causes an early check by
 * recovery.
 */
const HASTEN_MS = 2_000
/**
 * Maximum payments with early checks at a time, so that a buyer with many open payments cannot set the rate of requests to nodes.
 */
const MAX_HASTENED = 50

export interface BackgroundDeps {
  readonly ledger: Pick<Ledger, 'apply' | 'applyAll' | 'find' | 'list' | 'putOff'>
  readonly calls: Pick<OpenCalls, 'has'>
  readonly watch: Pick<ChangeWatch, 'notify'>
  readonly lease: Pick<OwnLease, 'current'>
  readonly log: Log
}

/** Writes of the payment engine for which no request waits. A database that is down only delays them. */
export class Background {
  readonly #deps: BackgroundDeps
  /** Rows whose response was delivered to a repeated call, until the delivery is written. */
  readonly #delivering = new Set<number>()
  readonly #hastened = new Set<number>()
  /** Payments of this process that had no call at the last check. */
  #suspects = new Set<string>()
  #doubts = 0
  /** Tasks that wait for the database, in the order in which they probe the database. */
  readonly #waiting = new Set<(asksForAll: boolean) => void>()
  #retrying: NodeJS.Timeout | undefined

  constructor(deps: BackgroundDeps) {
    this.#deps = deps
  }

  /**
   * Runs a write that must eventually succeed, and repeats it while the database is down. Only this process has the outcome of its
   * rows, and recovery would treat these rows as orphaned payments.
   *
   * @param work harmless if it is done twice
   * @returns when the work is done or given up. Never rejects
   */
  insist(purchaseId: string, work: () => Promise<void>, isEndless = true): Promise<void> {
    const attempt = (tries: number, done: () => void, asksForAll = false): void => {
      const failed = (err: unknown): void => {
        if (isEndless && isDatabaseDown(err))
          return this.#whenStoreIsBack((asks) => attempt(tries, done, asks))
        if (asksForAll) this.#wakeAll()
        const waitMs = RETRY_PAUSES_MS[tries]
        if (waitMs !== undefined) return void setTimeout(attempt, waitMs, tries + 1, done).unref()
        this.#deps.log.warn({ err, purchaseId }, 'could not record the outcome of a payment')
        done()
      }
      work().then(() => {
        if (asksForAll) this.#wakeAll()
        done()
      }, failed)
    }
    return new Promise((done) => attempt(0, done))
  }

  /**
   * Runs a task when the database is back. Many tasks may wait for hours, so one task probes the database each second, and a
   * success wakes all tasks.
   */
  #whenStoreIsBack(retry: (asksForAll: boolean) => void): void {
    this.#waiting.add(retry)
    this.#retrying ??= setTimeout(() => this.#askStore(), RETRY_STORE_MS).unref()
  }

  /** Lets one task probe the database. The next probe is sent even if this one has no response yet. */
  #askStore(): void {
    this.#retrying = undefined
    const [first] = this.#waiting
    if (first === undefined) return
    this.#waiting.delete(first)
    if (this.#waiting.size > 0) this.#retrying = setTimeout(() => this.#askStore(), RETRY_STORE_MS).unref()
    first(true)
  }

  /**
   * Wakes all tasks. Their own failures schedule the next probe. A database with a full disk can still be read, so a probe may
   * succeed although every write fails again.
   */
  #wakeAll(): void {
    const woken = [...this.#waiting]
    this.#waiting.clear()
    for (const retry of woken) retry(false)
  }

  /** @returns false if another process has moved the row */
  async #apply(change: PaymentChange): Promise<boolean> {
    const isDone = await this.#deps.ledger.apply(change)
    if (isDone) this.#deps.watch.notify(change.row)
    return isDone
  }

  /** Frees a claim whose write got no response. The row may exist already or appear soon, and no call would work on it. */
  freeUnanswered(key: string, purchaseId: string): void {
    const free = async (): Promise<void> => {
      const record = await this.#deps.ledger.find(key)
      if (record === undefined) throw new Error('The claim is not in the database, or not yet.')
      if (record.purchaseId !== purchaseId || record.state !== 'claimed') return
      await this.#apply(rules.free(record, 'store_unavailable'))
    }
    this.#doubts++
    void this.insist(purchaseId, free, this.#doubts <= MAX_DOUBTS).then(() => void this.#doubts--)
  }

  /**
   * Records that the buyer got the response from a repeated call, or from a call whose row another process has taken over.
   *
   * @param key key of a payment whose sale the other process may still have to record. The row is marked delivered after that
   */
  noteDelivered({ row, purchaseId }: DeliverablePayment, key?: string): void {
    if (this.#delivering.has(row)) return
    this.#delivering.add(row)
    const note = async () => {
      if (await this.#apply(rules.markDelivered({ row, purchaseId }))) return
      const held = { row, purchaseId, lease: null }
      if (await this.#apply(deliverReorged(held))) return
      if (await this.#apply(deliverReorged(held, notCollected))) return
      const record = key === undefined ? undefined : await this.#deps.ledger.find(key)
      if (record?.purchaseId !== purchaseId) return
      if (record.state === 'settling' || record.state === 'pending')
        throw new Error('The process that has taken over the sale has not recorded it yet.')
    }
    void this.insist(purchaseId, note).then(() => this.#delivering.delete(row))
  }

  /** Makes recovery check an open payment now, because a request has come with the payment. */
  hasten({ row, state, tries }: PaymentRecord): void {
    const isOpen = state === 'pending' || state === 'reorged'
    if (!isOpen || this.#hastened.has(row) || this.#hastened.size >= MAX_HASTENED) return
    this.#hastened.add(row)
    setTimeout(() => this.#hastened.delete(row), HASTEN_MS).unref()
    // If this write fails, recovery checks the row at its due time.
    this.#deps.ledger.putOff([{ row, state, afterMs: 0, tries }]).catch(() => undefined)
  }

  /** @see Payments.abandonOrphans */
  async abandonOrphans(): Promise<number> {
    const { ledger, calls, lease } = this.#deps
    const own = await ledger.list({ states: ofCalls, lease: lease.current.id, limit: ORPHAN_PAGE })
    const idle = own.filter(({ row, hasResponse, state }) => {
      return !calls.has(row) && (state !== 'settled' || !hasResponse)
    })
    // The row of a claim may exist before its call is registered here, so only payments without a call at two consecutive checks
    // count.
    const orphans = idle.filter(({ purchaseId }) => this.#suspects.has(purchaseId))
    this.#suspects = new Set(idle.map(({ purchaseId }) => purchaseId))
    if (orphans.length === 0) return 0
    const left = await ledger.applyAll(orphans.map((record) => rules.abandon(record)))
    return left.filter((isLeft) => isLeft === true).length
  }
}
