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
  StoredResponse,
  unchargedStates,
} from '../../domain/payment.ts'
import type { LostRefund, Purchase, PurchaseStatus, Refund } from '../../domain/purchase.ts'
import type { WebhookKind } from '../../domain/webhook.ts'
import type { Lease } from './leases.ts'

/**
 * How safe a change is when its promise resolves.
 *
 * `flushed`: the change and every earlier change of any process are on disk, so that a power cut cannot undo them. `visible`: every
 * process of the database sees the change. It survives the death of any process, but a power cut may lose it. It is on disk with
 * the next flushed change, at most a second later. A power cut loses only the latest changes, so that all changes after a lost
 * change are lost too.
 */
export type Durability = 'flushed' | 'visible'

/**
 * Maximum delay until a row is due, in ms. A due time further in the future was set before the machine rebooted, and counts as due.
 */
export const LARGEST_DELAY_MS = 10 * 60 * 1000

/** `dueReason` of rows that were adopted from a dead process, until their next change. No call works on these rows. */
export const takenOver = 'taken over from a process that is gone'

/** The fields of a payment that its claim determines. */
export interface ClaimRequest extends PaymentIdentity {
  /** x402 scheme of the payment, such as `exact`. */
  readonly scheme: string
  /** {@link Lease.id} of the process that will work on the payment. */
  readonly lease: number
  readonly linkId: string | null
  readonly sessionId: string | null
  readonly storeId: string
  readonly requestHash: string
  readonly purchaseId: string
  /** The x402 payload as received, as JSON. */
  readonly payload: string
  /**
   * The id that the buyer has given the payment (x402 extension `payment-identifier`). Of all payments of a payer on a network, only
   * one has an id. A payment in one of {@link unchargedStates} loses its id to the next payment with this id. Absent: none.
   */
  readonly identifier?: string
}

export type ClaimResult =
  /**
   * The caller has claimed the payment, which another call may have released before. `row` identifies the payment in every change.
   */
  | { readonly won: true; readonly row: number }
  /**
   * Another caller has claimed the payment, and `record` is its current row. If `record` has another key, this payment is not claimed,
   * because the payment of `record` has its identifier.
   */
  | { readonly won: false; readonly record: PaymentRecord }

/** One conditional change of one payment. All its parts are in one commit. */
export interface PaymentChange {
  readonly row: number
  /** Condition: the row is in one of these states. */
  readonly from: readonly PaymentState[]
  /** Condition: the row has this lease. Null if the lease does not matter. */
  readonly lease: number | null
  /** Condition: the row has this {@link PaymentRecord.errorReason}. If absent, the reason does not matter. */
  readonly errorWas?: string
  /** Condition: the row still belongs to this claim. A rejected payment may have been claimed again, with another purchase id. */
  readonly purchaseId: string
  /**
   * The new state. If it is one of `from`, the row may keep its state, and only other fields change. A row in a state that is not
   * open has no lease.
   */
  readonly to: PaymentState
  /** The new reason. If absent, it stays unchanged. */
  readonly errorReason?: string | null
  /** The row's new lease. Null if no process works on the row any more. If absent, it stays unchanged. */
  readonly takenBy?: number | null
  /** Replaces the stored attempt. Null deletes it. If absent, it stays unchanged. */
  readonly attempt?: SettlementAttempt | null
  /** Replaces the stored response. Null deletes it. If absent, it stays unchanged. */
  readonly response?: StoredResponse | null
  /** Facts of the transfer. `event` is written to the purchase too. */
  readonly settled?: {
    /** Hash or signature. Null if the payment has no transaction of its own. */
    readonly transaction: string | null
    readonly event: string | null
    /** Block number (EVM) or slot (Solana) in which the transfer was seen. Null if only a facilitator's response is known. */
    readonly block: number | null
    readonly chargedAtomic: bigint
  }
  /** The purchase to insert. If the payment already has a purchase, that purchase gets the new status, transaction and event. */
  readonly purchase?: Purchase
  /** The new status of the payment's purchase, if it has one. */
  readonly purchaseStatus?: PurchaseStatus
  /** Ledger entries to add after the existing entries of `purchaseId`. */
  readonly entries?: readonly LedgerEntry[]
  /**
   * Records a refund transfer. Condition: the transaction has refunded nothing else and pays for no purchase, and none of its keys
   * is a payment's. A transaction can refund only one payment, permanently. A refund that left the chain may refund its own payment
   * again, but no other payment.
   */
  readonly refund?: TransferBackFound
  /**
   * Records that this refund of the payment has left the chain. Condition: the transaction has refunded the payment. It is stored
   * as a {@link LostRefund}.
   */
  readonly lostRefund?: Pick<TransferBackFound, 'network' | 'transaction'>
  /** Condition: this transaction was never a refund, not even one that was lost, because a refund never pays for anything. */
  readonly noRefund?: Pick<TransferBackFound, 'network' | 'transaction'>
  readonly session?: SessionMove
  /** Events for the outbox of the seller's webhooks. See the port `Webhooks`. */
  readonly events?: readonly OutboxEvent[]
  /** When recovery must check the row, in ms from now by the database's clock, at most {@link LARGEST_DELAY_MS}. Null for never. */
  readonly dueInMs: number | null
  readonly durability: Durability
}

/** The effect of a payment's change on its payment session. */
export interface SessionMove {
  readonly id: string
  /**
   * `take`: this payment is being settled for the session from now on. Condition: the session is payable ({@link isPayable}) by
   * wall time.
   * `release`: nothing was sent. If this payment was being settled for the session, the session is payable again.
   * `fail`: this payment can never land. If it was being settled for the session, the failure is counted, and the third failure
   * ends the session as failed.
   * `confirm`: the payment confirms the session with the change's purchase. Condition: it may do so ({@link mayConfirm}).
   *
   * If a session's link was deleted while a payment was being settled for the session, the session fails when that payment is
   * released or fails.
   */
  readonly does: 'take' | 'release' | 'fail' | 'confirm'
}

/** A webhook event that a change causes. */
export interface OutboxEvent {
  readonly kind: Extract<
    WebhookKind,
    'purchase.confirmed' | 'payment.confirmed' | 'refund.due' | 'refund.recorded'
  >
  readonly detail?: string
}

/** A refund transfer that was proved on chain. */
export interface TransferBackFound {
  readonly network: NetworkId
  /** Hash or signature. EVM hashes are compared case-insensitively. */
  readonly transaction: string
  /**
   * The keys that the transaction would have as an x402 payment. A payment in flight has no transaction in the ledger yet, so these
   * keys are needed to find out that the transaction is a payment and not a refund.
   */
  readonly paymentKeys: readonly PaymentKey[]
}

/** A row that cannot be processed now and is checked again later. */
export interface PutOff {
  readonly row: number
  /** Condition: the row is still in this state. */
  readonly state: PaymentState
  /**
   * Pause before the next check, in ms, at most {@link LARGEST_DELAY_MS}. Null parks the row, so that recovery never checks it
   * again.
   */
  readonly afterMs: number | null
  /** How often the row has been put off. Every applied change resets this to 0. */
  readonly tries: number
  /**
   * The reason, as a message for the operator. If absent, it stays unchanged. A row that is parked without a failed attempt has no
   * reason.
   */
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
  /** {@link Lease.id} of the process that works on the rows. */
  readonly lease?: number
  readonly updatedBeforeMs?: number
  readonly updatedAfterMs?: number
  /** Sorts the most recently claimed rows first. If absent, the rows that changed longest ago come first. */
  readonly isNewestFirst?: true
  readonly limit: number
}

export interface ParkedPayments {
  /** Number of all such rows. */
  readonly total: number
  /** The rows that were put off most often come first. */
  readonly rows: readonly PaymentRecord[]
}

/**
 * The rows of payments. An implementation writes the conditional changes that it gets, and makes no decisions, because
 * core/payments/rules.ts and reconciliation.ts contain the rules. Every implementation guarantees the following.
 *
 * - The key of a payment is permanently unique. The purchase of a payment and the id of a purchase are unique too, and so are
 *   network, transaction and event of a purchase together. The transaction alone is not, because several payments may land in one.
 * - Every condition is checked in the commit of the change itself, against all processes of the database.
 * - A row has a lease only in an open state. A change to another state removes the lease.
 * - Leases and due times are by the database's clock. Wall time is stored only for people (`claimedAtMs`, `updatedAtMs`).
 * - Every method rejects with `store_unavailable` if the database does not respond. The change may or may not have happened.
 */
export interface Ledger {
  /**
   * Claims a payment by one insert on its unique key, or by one conditional take-over of a `rejected` row, which replaces all
   * fields. Durability `visible`. A caller that loses gets the current row, which the same write reads, without a stored response.
   * The same commit gives the identifier to the payment. A payment that is already claimed keeps the identifier of its claim.
   */
  claim(request: ClaimRequest): Promise<ClaimResult>
  /**
   * Applies the whole change in one conditional commit.
   *
   * @returns false if a condition was not met, so that nothing has changed
   * @throws `CONFLICT` if another payment has the purchase's id, or its network, transaction and event. Also if the attempt
   *   {@link hasNonce}, and another settling, pending or reorged attempt of its settler has the same nonce for another
   *   transaction. The database enforces this even if two processes believe that they hold the lease
   */
  apply(change: PaymentChange): Promise<boolean>
  /**
   * Applies independent changes, each with its own conditions, in one commit. If a change fails, the result has its error at the
   * same index.
   */
  applyAll(changes: readonly PaymentChange[]): Promise<(boolean | Error)[]>
  find(key: PaymentKey): Promise<PaymentRecord | undefined>
  /** The states of these payments, without payments that were never claimed. */
  statesOf(keys: readonly PaymentKey[]): Promise<ReadonlyMap<PaymentKey, PaymentState>>
  /**
   * The stored response of a row. It is read separately, so that a large response delays no other read or write. Concurrent
   * requests share one read and the body.
   */
  responseOf(row: number): Promise<StoredResponse | undefined>
  /**
   * Gives rows in these states the new lease, if their lease has expired by the database's clock. They are due at once, with the
   * reason {@link takenOver}. Writes only if there are such rows.
   *
   * @returns the number of rows
   */
  adopt(lease: Lease, states: readonly OpenState[], limit: number): Promise<number>
  /** Rows that are due by the database's clock. The row that has been due longest comes first. */
  due(filter: DueFilter): Promise<PaymentRecord[]>
  /**
   * Puts rows off, by setting their next due time, count of tries and reason. Nothing else changes, not even `updatedAtMs`. The
   * durability is `visible`, and all rows are in one commit.
   */
  putOff(rows: readonly PutOff[]): Promise<void>
  /** Rows that were put off at least `tries` times, and parked rows. */
  parked(tries: number, limit: number): Promise<ParkedPayments>
  /** Settling, pending and reorged attempts of one settler, whose nonces are therefore in use. Their bytes are left out. */
  openAttempts(settler: string): Promise<OpenAttempt[]>
  /**
   * Attempts of one settler that have settled their payments by their own transactions, and that recovery checks on chain again. A
   * reorganization could free their nonces. There is one attempt for each transaction, without bytes.
   */
  minedAttempts(settler: string): Promise<OpenAttempt[]>
  /** Rows in these states. The row that changed longest ago comes first. */
  list(filter: PaymentFilter): Promise<PaymentRecord[]>
  /** How a payment was refunded. Undefined if it was not refunded. */
  refundOf(row: number): Promise<Omit<Refund, 'purchaseId'> | undefined>
  /**
   * Deletes the responses of payments that last changed before this time and are neither `settling` nor `pending`. The rows stay
   * permanently. If the result is `limit`, the caller calls again.
   *
   * @returns the number of deleted responses, at most `limit`
   */
  forgetResponses(updatedBeforeMs: number, limit: number): Promise<number>
  /**
   * Deletes signed payloads and attempts of payments for which nothing has to be sent any more. These are `rejected` payments, and
   * `delivered` and `refunded` payments with a known transaction that are not due. Their identifiers are deleted too, so that
   * another payment may have them. The rows stay permanently, with the data that finds them on chain. On Solana that needs the
   * block hash, so the settler's attempt stays, or the payload if there is no attempt.
   *
   * Reads at most `limit` rows after `afterRow`, in order, up to the last row that was claimed before this time. A row between them
   * that was claimed while the clock was fast does not stop the deletion of later rows.
   *
   * @returns the number of the last row read, or 0 if there was none
   */
  forgetSigned(updatedBeforeMs: number, afterRow: number, limit: number): Promise<number>
  /**
   * Deletes the responses of `delivered` payments that were claimed before this time, because a delivered response is sent again
   * only for some time after the claim. The rows stay permanently, and show that the response was delivered.
   *
   * Reads at most `limit` responses after the row `afterRow`, in order, up to the last row that was claimed before this time. A row
   * between them that was claimed later stays, and does not stop the deletion of later rows.
   *
   * @returns the number of the last row read, or 0 if there was none
   */
  forgetDelivered(claimedBeforeMs: number, afterRow: number, limit: number): Promise<number>
}
