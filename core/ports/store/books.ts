import type { LedgerEntry } from '../../domain/ledger.ts'
import type { NetworkId } from '../../domain/network.ts'
import type {
  OpenAttempt,
  OpenState,
  PaymentIdentity,
  PaymentKey,
  PaymentRecord,
  PaymentState,
  SettlementAttempt,
  StoredAnswer,
} from '../../domain/payment.ts'
import type { Purchase, PurchaseStatus } from '../../domain/purchase.ts'
import type { Refund } from '../../domain/refund.ts'
import type { WebhookKind } from '../../domain/webhook.ts'
import type { Lease } from './leases.ts'

/**
 * How safe a change is when its promise resolves.
 *
 * `flushed`: on disk, and with it every change before it, whichever process made them: a power cut can't take it back.
 * `visible`: every process of the store sees it, and a kill of any process keeps it; a power cut may lose it. It is on disk
 * with the next flushed change, at the latest after a second. A power cut loses the latest changes only: what is lost, all
 * that came after it is lost with it.
 */
export type Durability = 'flushed' | 'visible'

/** No delay is longer: a due time further ahead was set before the machine's last start, and counts as due. */
export const LARGEST_DELAY_MS = 10 * 60 * 1000

/** `dueReason` of rows that were adopted, until a change is applied: no call works on them, whoever's they are. */
export const takenOver = 'taken over from a process that is gone'

/** What is fixed when a payment is claimed. */
export interface ClaimRequest extends PaymentIdentity {
  /** x402 scheme that the payment is made by: `exact`. */
  readonly scheme: string
  /** {@link Lease.id} of the process that is going to work on it. */
  readonly lease: number
  readonly linkId: string | null
  readonly sessionId: string | null
  readonly storeId: string
  readonly requestHash: string
  readonly purchaseId: string
  /** The x402 payload as received, JSON. */
  readonly payload: string
}

export type ClaimResult =
  /** The payment is the caller's, also when an earlier try of it was rejected. `row` names it in every change. */
  | { readonly won: true; readonly row: number }
  /** Somebody has it: the row as it stands. */
  | { readonly won: false; readonly record: PaymentRecord }

/** One conditional change of one payment, all of it in one commit. */
export interface PaymentChange {
  readonly row: number
  /** Condition: the row is in one of these. */
  readonly from: readonly PaymentState[]
  /** Condition: the row has this lease; null: whoever has it. */
  readonly lease: number | null
  /** Condition: this is what it is there for ({@link PaymentRecord.errorReason}). Absent: whatever it is. */
  readonly errorWas?: string
  /** Condition: the claim that is meant; a rejected payment may have been claimed anew, with a purchase id of its own. */
  readonly purchaseId: string
  /** May be one of `from`: the row keeps its state, and gets the rest. A row in no open state has no lease. */
  readonly to: PaymentState
  /** Absent: as it is. */
  readonly errorReason?: string | null
  /** The row's new lease; null: nobody works on it any more. Absent: as it is. */
  readonly takenBy?: number | null
  /** Replaces the one that is there; null: forgets it. Absent: as it is. */
  readonly attempt?: SettlementAttempt | null
  /** Replaces the one that is there; null: forgets it. Absent: as it is. */
  readonly answer?: StoredAnswer | null
  /** What is known of the transfer; `event` becomes the purchase's as well. */
  readonly settled?: {
    /** Hash or signature; null where a payment has none of its own. */
    readonly transaction: string | null
    readonly event: string | null
    /** Block number (EVM) or slot (Solana) in which it was seen; null where only a facilitator's word is known. */
    readonly block: number | null
    readonly chargedAtomic: bigint
  }
  /** Inserted; or, where this payment has one already, its status, transaction and event are set. */
  readonly purchase?: Purchase
  /** Set where the payment has a purchase. */
  readonly purchaseStatus?: PurchaseStatus
  /** Added after the lines that `purchaseId` has already. */
  readonly entries?: readonly LedgerEntry[]
  /**
   * Condition and fact: this transfer back has refunded nothing else and pays for no purchase, and none of the keys is a
   * payment's. One transaction refunds one payment, for good.
   */
  readonly refund?: TransferBackFound
  /** Condition: this transaction has paid nothing back. What is a refund pays for nothing, for good. */
  readonly noRefund?: Pick<TransferBackFound, 'network' | 'transaction'>
  readonly session?: SessionMove
  /** What the store's endpoints hear of it, where they asked to; see the port Webhooks. */
  readonly tells?: readonly Told[]
  /** When somebody has to look at it, from now by the store's clock, at most {@link LARGEST_DELAY_MS}; null: nobody has to. */
  readonly dueInMs: number | null
  readonly durability: Durability
}

/** What a change of a payment does to the session that it is for. */
export interface SessionMove {
  readonly id: string
  /**
   * `take`: condition and fact: the session is payable ({@link isPayable}) by people's time, and this payment is being settled for
   * it from now on.
   * `release`: this payment is not any more, and nothing was sent: where it was, the session is payable again.
   * `fail`: this payment can never land: where it was, that is counted. The third ends the session as failed.
   * `confirm`: condition and fact: this payment may confirm the session ({@link mayConfirm}), and has, with the change's purchase.
   *
   * A session whose link was deleted while a payment was being settled for it fails when that is released or fails.
   */
  readonly does: 'take' | 'release' | 'fail' | 'confirm'
}

/** What a change is to those who listen. */
export interface Told {
  readonly kind: Extract<
    WebhookKind,
    'purchase.confirmed' | 'payment.confirmed' | 'refund.due' | 'refund.recorded'
  >
  readonly detail?: string
}

/** A transfer back that was proved on chain. */
export interface TransferBackFound {
  readonly network: NetworkId
  /** Hash or signature; the case of an EVM hash does not count. */
  readonly transaction: string
  /**
   * Keys that the transaction has as an x402 payment. A payment that is still on its way has no transaction in the books
   * yet, and it must not count as a refund as well.
   */
  readonly paymentKeys: readonly PaymentKey[]
}

/** One row that nothing could be done about now. */
export interface PutOff {
  readonly row: number
  /** Condition: the row is still in this state. */
  readonly state: PaymentState
  /** At most {@link LARGEST_DELAY_MS}; null parks the row: nobody looks at it again by itself. */
  readonly afterMs: number | null
  /** How often it was put off by now; every applied change sets it back to 0. */
  readonly tries: number
  /** Why, in words for the operator; absent: as it is, and nothing of a row that is parked without a try that failed. */
  readonly reason?: string
}

export interface DueFilter {
  readonly states: readonly PaymentState[]
  readonly network?: NetworkId
  readonly limit: number
}

export interface PaymentFilter {
  readonly states: readonly PaymentState[]
  readonly settler?: string
  /** {@link Lease.id} of the process that works on them. */
  readonly lease?: number
  readonly updatedBeforeMs?: number
  readonly updatedAfterMs?: number
  /** Those that were claimed last come first, instead of those that moved longest ago. */
  readonly isNewestFirst?: true
  readonly limit: number
}

export interface ParkedPayments {
  /** All that there are. */
  readonly total: number
  /** Those that were put off most often come first. */
  readonly rows: readonly PaymentRecord[]
}

/**
 * The rows of payments. An implementation writes conditionally what it is told, and decides nothing: the rules are those of
 * core/payments/rules.ts. What it promises by itself:
 *
 * - The key of a payment is unique for good. So are the purchase of a payment, a purchase's id, and a purchase's network,
 *   transaction and event together. Not the transaction: several payments may land in one.
 * - Every condition is judged in the commit of the change itself, against all processes of the store.
 * - A row has a lease only in an open state; a change to another state takes it away.
 * - Times of leases and due times are the store's; wall time is kept for people only (`claimedAtMs`, `updatedAtMs`).
 * - Every method rejects with `store_unavailable` when the store can not say. A change may have happened then, and may not.
 */
export interface Books {
  /**
   * One insert on the unique key, or one conditional take-over of a `rejected` row, which gets everything anew.
   * Durability `visible`. Losing reads the row as it stands, in the same write; never a stored answer.
   */
  claim(request: ClaimRequest): Promise<ClaimResult>
  /**
   * One conditional commit of everything in the change.
   * @returns false when a condition did not hold; nothing changed then.
   * @throws `CONFLICT` when the purchase's id, or its network, transaction and event, are another payment's; or when the
   *   attempt {@link hasAccountNumber} and another one of its settler that is settling, pending or reorged has the same
   *   number for another transaction. This holds whoever thinks that it has the key.
   */
  apply(change: PaymentChange): Promise<boolean>
  /** Independent changes, each with its own condition, in one commit; an error stands in the place of the one it is of. */
  applyAll(changes: readonly PaymentChange[]): Promise<(boolean | Error)[]>
  find(key: PaymentKey): Promise<PaymentRecord | undefined>
  /** Where these payments stand; those that nobody has claimed are left out. */
  statesOf(keys: readonly PaymentKey[]): Promise<ReadonlyMap<PaymentKey, PaymentState>>
  /**
   * The stored answer of a row. Read beside everything else: a large one holds up neither other reads nor writes, and those
   * who ask at once share one read, and its body.
   */
  answerOf(row: number): Promise<StoredAnswer | undefined>
  /**
   * Makes rows in these states, whose lease is over by the store's clock, `lease`'s, and due at once, for the reason {@link takenOver}.
   * Writes only when there are any.
   * @returns how many.
   */
  adopt(lease: Lease, states: readonly OpenState[], limit: number): Promise<number>
  /** Rows that are due by the store's clock, longest due first. */
  due(filter: DueFilter): Promise<PaymentRecord[]>
  /** Puts rows off: next due, count of tries, why. Nothing else moves, `updatedAtMs` neither. One commit, `visible`. */
  putOff(rows: readonly PutOff[]): Promise<void>
  /** Rows that were put off at least `tries` times, and rows that are put off for good. */
  parked(tries: number, limit: number): Promise<ParkedPayments>
  /** Attempts of one settler that are settling, pending or reorged, without their bytes: account nonces in use. */
  openAttempts(settler: string): Promise<OpenAttempt[]>
  /**
   * Attempts of one settler whose own transactions have settled their payments, which are to be looked up on chain once more: account
   * nonces that a reorganisation could take back. Without their bytes; one for each transaction.
   */
  minedAttempts(settler: string): Promise<OpenAttempt[]>
  /** Rows in these states, those first that moved longest ago. */
  list(filter: PaymentFilter): Promise<PaymentRecord[]>
  /** How a payment was paid back; undefined when it was not. */
  refundOf(row: number): Promise<Omit<Refund, 'purchaseId'> | undefined>
  /**
   * Removes answers of payments that last moved before this time and are in none of `settling` and `pending`; the rows stay
   * for good. At most `limit` at once: whoever gets as many asks again.
   * @returns how many.
   */
  forgetAnswers(updatedBeforeMs: number, limit: number): Promise<number>
  /**
   * Removes what was signed, payload and attempt, of payments that nothing has to be sent for any more: `rejected`, or
   * `delivered` and `refunded` with a known transaction and not due. The rows stay for good, with what finds them on chain.
   * Solana finds nothing without the block hash: there what the settler signed stays, and the payload where there is none.
   *
   * Looks at those after the row `afterRow`, at most `limit` of them and in the order of their numbers, up to the last that was
   * claimed before this time: one between them that was claimed while the clock was ahead keeps nothing that came after it.
   * @returns the number of the last row that it looked at; 0 when there was none
   */
  forgetSigned(updatedBeforeMs: number, afterRow: number, limit: number): Promise<number>
  /**
   * Removes answers of payments that are `delivered` and were claimed before this time: an answer that was delivered is given
   * again for a while after the claim only. The rows stay for good, and say that they were delivered.
   *
   * Looks at the answers of payments after the row `afterRow`, at most `limit` of them and in the order of their rows, up to
   * the last that was claimed before this time: one between them that was claimed later stays, and keeps nothing that came after it.
   * @returns the number of the last row that it looked at; 0 when there was none
   */
  forgetDelivered(claimedBeforeMs: number, afterRow: number, limit: number): Promise<number>
}
