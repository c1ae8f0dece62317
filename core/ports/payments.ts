import type { LedgerEntry } from '../domain/ledger.ts'
import type {
  landedLate,
  PaymentIdentity,
  PaymentKey,
  PaymentRecord,
  PaymentState,
  SettlementAttempt,
  StoredAnswer,
} from '../domain/payment.ts'
import type { Purchase } from '../domain/purchase.ts'

/** What is fixed when a payment is claimed. */
export interface ClaimRequest extends PaymentIdentity {
  readonly owner: string
  readonly linkId: string
  readonly storeId: string
  readonly requestHash: string
  readonly purchaseId: string
  readonly payload: string
}

export type ClaimResult =
  /** The caller owns the payment and may go on; also when an earlier try of the same payment was rejected. */
  | { readonly won: true; readonly purchaseId: string }
  /** Somebody has it: the row as it stands. */
  | { readonly won: false; readonly record: PaymentRecord }

/** A transfer back that was proved on chain. */
export interface RefundRequest {
  /** Hash or signature; the case of an EVM hash does not count. */
  readonly transaction: string
  /**
   * Keys that the transaction has as an x402 payment. A payment that is still on its way has no transaction in the books
   * yet, and it must not count as a refund as well.
   */
  readonly paymentKeys: readonly PaymentKey[]
}

export type RefundResult =
  /** It is booked, now or before. */
  | 'refunded'
  /** Another transaction has paid this purchase back. */
  | 'refunded_otherwise'
  /** The transaction pays for a purchase, or has paid another one back. */
  | 'transaction_used'
  /** There is no such payment, or it is not charged: nothing can be paid back. */
  | 'not_refundable'

/**
 * Durable payment states. Every promise resolves only after the change is on disk (fsync, or the database's commit).
 * Every write rejects with `store_unavailable` when the store can not say; the caller then refuses the request,
 * because serving a paid call twice is worse than asking the buyer to try again.
 */
export interface Payments {
  /**
   * Claims a payment: one insert against the unique key, or one conditional update of a row that is `rejected`.
   * A rejected row is taken over whole: it gets the new link, request hash, purchase id and owner.
   * Do not split it into "is it spent?" and "mark it spent": two retries would both read "no".
   */
  claim(request: ClaimRequest): Promise<ClaimResult>
  /**
   * Moves a payment along one arrow of the state machine, if it is in `from` and owned by `owner`.
   * @returns false when it was not: somebody else took it over; the caller stops at once.
   */
  advance(
    key: PaymentKey,
    owner: string,
    from: PaymentState,
    to: PaymentState,
    errorReason?: string,
  ): Promise<boolean>
  /**
   * `claimed`/`verified` → `settling`: stores what was signed, and the seller's answer, BEFORE the broadcast. That the
   * chain was asked first is the caller's order of work and needs no commit: a process that ends before this one has sent
   * nothing, whether it had asked or not.
   * @returns false when the row was in another state or not the owner's; nothing may be broadcast then.
   */
  beginSettlement(
    key: PaymentKey,
    owner: string,
    attempt: SettlementAttempt,
    answer: StoredAnswer | null,
  ): Promise<boolean>
  /**
   * `settling`/`pending`/`reorged` → `settled`, with the purchase and its ledger entries in one transaction.
   * A row that is `settled` or beyond answers true without a second purchase (idempotent).
   * @returns false when the state or the owner did not fit.
   */
  settle(
    key: PaymentKey,
    owner: string,
    transaction: string,
    purchase: Purchase,
    entries: readonly LedgerEntry[],
  ): Promise<boolean>
  /** Keeps the answer of a call whose payment was settled first (`settle: before`). */
  keepAnswer(key: PaymentKey, answer: StoredAnswer): Promise<void>
  /** Moves payment and purchase to `refund_due` (settled or delivered before), or to `reorged`, in one commit. */
  moveCharged(
    key: PaymentKey,
    from: PaymentState,
    to: 'delivered' | 'refund_due' | 'reorged',
    entries: readonly LedgerEntry[],
    errorReason?: string,
  ): Promise<boolean>
  /**
   * `settled`/`delivered`/`refund_due` → `refunded`: the transfer back, payment, purchase and ledger entries in one
   * commit. Whoever calls has proved the transfer on chain. One transaction refunds one purchase, for good: it is one
   * insert against unique keys. Reporting the same refund again answers `refunded` and changes nothing.
   */
  recordRefund(key: PaymentKey, refund: RefundRequest, entries: readonly LedgerEntry[]): Promise<RefundResult>
  /**
   * `refund_due` → `settled`, of a payment that is owed back because it {@link landedLate}: its buyer is back, and `owner`
   * is going to ask the seller after all.
   * @returns false when it is owed for another reason, bought nothing, is refunded, or somebody else was faster.
   */
  resume(key: PaymentKey, owner: string): Promise<boolean>
  find(key: PaymentKey): Promise<PaymentRecord | undefined>
  /** Rows in these states, those first that moved longest ago; with `silentOwnersBeforeMs` only of owners silent since. */
  list(filter: PaymentFilter): Promise<PaymentRecord[]>
  /** Makes `owner` the worker of a row that `previousOwner` left; false when somebody was faster. */
  takeOver(key: PaymentKey, previousOwner: string, owner: string): Promise<boolean>
  /** Says that this process lives. Called every few seconds; `list` compares against it. */
  heartbeat(owner: string): Promise<void>
  /**
   * Removes the answers of payments that last moved in this window and are not on their way to a settlement; the rows stay
   * for good. A window, so that its cost is that of what is removed and not of all that was ever sold.
   * @returns how many.
   */
  forgetAnswers(updatedAfterMs: number, updatedBeforeMs: number): Promise<number>
}

export interface PaymentFilter {
  readonly states: readonly PaymentState[]
  readonly settler?: string
  /** Only rows whose owner's last heartbeat is before this time (or which never had one). */
  readonly silentOwnersBeforeMs?: number
  readonly updatedBeforeMs?: number
  readonly updatedAfterMs?: number
  /** Only rows with nothing to hand out: no answer is kept. */
  readonly isUnanswered?: true
  /** Those that moved last come first. */
  readonly isNewestFirst?: true
  readonly limit: number
}
