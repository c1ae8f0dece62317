import type { PaymentIdentity, PaymentRecord, StoredResponse } from '../domain/payment.ts'
import type { Purchase } from '../domain/purchase.ts'
import type { Refusal, Settler } from '../ports/chains/settler.ts'
import type { TransferBackFound } from '../ports/store/ledger.ts'
import type { PaymentPayload, PaymentRequirements } from '../x402/types.ts'

/** A call's payment, whose terms and signature have been checked. */
export interface PresentedPayment {
  readonly payload: PaymentPayload
  readonly terms: PaymentRequirements
  readonly identity: PaymentIdentity
  /**
   * The settler that has checked the payment. Null if no settler could check it. Such a payment can never be claimed, and only its
   * signature is compared with a stored signature.
   */
  readonly settler: Settler | null
  /**
   * Why the payment cannot be claimed now, because it has expired or the link's terms have changed. The buyer still gets what the
   * payment has already bought. Null if the payment can be claimed.
   */
  readonly unclaimable: Error | null
}

/** The call or the payment session for which a payment is used. */
export interface PaidFor {
  /** Null if the payment is not for a link. */
  readonly linkId: string | null
  /** Null for a call. The commit that confirms a session also marks the session's payment as delivered. */
  readonly sessionId: string | null
  readonly storeId: string
  /** SHA-256 in hex of method, path, query and body, a mark of the caller, and the headers that decided the price. */
  readonly requestHash: string
  /** True if the buyer is charged before the gateway calls the seller's API. */
  readonly settlesFirst: boolean
}

/**
 * A call's right to use a payment, which only one call can get. Only the engine reads the state behind it. The call with this right
 * passes it to `deliver` at its end, for every outcome.
 */
export interface PaidCall {
  /** Id of the row in the ledger. */
  readonly row: number
  /** Set before anything is charged, so that the buyer gets this id even while the outcome is unknown. */
  readonly purchaseId: string
  /** False as long as nothing can have been sent to the chain. */
  readonly mayBeCharged: boolean
}

/** A payment whose stored response is sent to a repeated call. */
export type DeliverablePayment = Pick<PaidCall, 'row' | 'purchaseId'>

/** How a settlement ended for its call. */
export type SettleEnd =
  /** The money is on chain. {@link Payments.record} still has to record it. */
  | { readonly status: 'settled'; readonly transaction: string | null; readonly chargedAtomic: bigint }
  /** The transaction was sent, or may have been sent. `transaction` is empty if it is not known. */
  | { readonly status: 'pending'; readonly transaction: string; readonly reason: string }
  /** The transaction can never land. */
  | { readonly status: 'failed'; readonly transaction: string; readonly reason: string }
  /** Nothing was sent, so the buyer can use the payment again. */
  | {
      readonly status: 'rejected'
      readonly reason: string
      readonly message: string
      readonly transient?: boolean
    }

/** What became of the response of a call that has ended. */
export type DeliveryOutcome =
  /** The whole response was sent. */
  | 'delivered'
  /** The buyer disconnected before the response. */
  | 'not_collected'
  /** The gateway itself failed to send the response. */
  | 'unsent'
  /** The seller's API refused the call, broke the response off or never responded. */
  | 'seller_failed'
  /** The payment was charged, but the call ended before the gateway called the seller's API. */
  | 'not_asked'
  /** The call ended without a charge. */
  | 'not_charged'

export type RefundResult =
  /** The refund is recorded, by this request or an earlier one. */
  | 'refunded'
  /** Another transaction has already refunded this purchase. */
  | 'refunded_otherwise'
  /** The transaction pays for a purchase, or has refunded another purchase. */
  | 'transaction_used'
  /** The payment is not charged, so it cannot be refunded. */
  | 'not_refundable'

/**
 * The payment engine. These methods do all work on a payment, and rules.ts or reconciliation.ts builds every change that they make
 * in the ledger. Each method rejects with `store_unavailable` if the database does not respond. The caller then refuses the
 * request, because a retry by the buyer is better than serving a paid call twice. A call that has ended can no longer verify,
 * settle or record, and gets an error.
 */
export interface Payments {
  /**
   * Claims the payment by one insert on its unique key. The first request wins, and every later request gets the row as it is. If
   * this method or {@link Payments.find} finds a row with an unknown outcome, recovery checks it on chain now instead of at its due
   * time.
   *
   * @throws `payment_id_reused` if another payment of the same payer has the payment's identifier. Nothing was claimed then
   */
  claim(
    presented: PresentedPayment,
    call: PaidFor,
  ): Promise<{ readonly won: PaidCall } | { readonly lost: PaymentRecord }>
  /**
   * Checks whether the payment could be settled now, before the gateway calls the seller's API. It makes every check that could
   * refuse the payment. From then on, the payment is one of those in flight until the call has ended.
   */
  verify(paid: PaidCall): Promise<{ readonly ok: true } | Refusal>
  /**
   * Checks that the payment still belongs to this call, before a step that cannot be undone, such as calling the seller's API. It
   * normally only reads a clock. It reads the row if the process was suspended for longer than its lease lasts.
   *
   * @throws the error for the buyer if another process has moved the payment
   */
  assertHeld(paid: PaidCall): void | Promise<void>
  /**
   * Stores the signed transaction and the seller's response, broadcasts the transaction, and waits for the outcome.
   *
   * @param response the response for a repeated call. Null if the gateway calls the seller's API after the charge
   * @param amountAtomic the amount to charge, if it is less than the authorized amount. Only the scheme `upto` allows less. Nothing
   *   is sent to the chain for 0
   * @throws `settlement_unavailable` or `store_unavailable` if the settlement could not begin, so that nothing was sent.
   *   `SESSION_NOT_OPEN` if the payment session has ended, or another payment is being settled for it
   */
  settle(paid: PaidCall, response: StoredResponse | null, amountAtomic?: bigint): Promise<SettleEnd>
  /**
   * Records in one commit that the payment is settled, with the purchase and its ledger entries.
   *
   * @throws the error for the buyer: `settlement_pending` while the state is unknown, `payment_already_used` if the payment was
   *   owed back or refunded meanwhile
   */
  record(paid: PaidCall): Promise<void>
  /**
   * Ends a call, after its response was sent or could not be sent. The rules decide the outcome of the row. The outcome is written
   * in the background, and the write is retried while the database is down. If a repeated call has sent the stored response of
   * another call's payment, this method only records that delivery.
   *
   * @param response the response to store for a repeated call, if the link charges first
   * @param reason why the call failed
   */
  deliver(
    paid: PaidCall | DeliverablePayment,
    outcome: DeliveryOutcome,
    response?: StoredResponse,
    reason?: string,
  ): void
  /**
   * Takes over a payment that landed after its call had ended, because its buyer has returned.
   *
   * @returns undefined if the payment is owed back for another reason, or another request has taken it over
   */
  resume(record: PaymentRecord, presented: PresentedPayment, call: PaidFor): Promise<PaidCall | undefined>
  find(key: string): Promise<PaymentRecord | undefined>
  responseOf(record: PaymentRecord): Promise<StoredResponse | undefined>
  /**
   * Waits until a payment's row differs from `seen`. It notices changes by this process at once, and changes by other processes by
   * polling. Requests for the same payment share the polls.
   *
   * @returns undefined if the time is over
   */
  changed(seen: PaymentRecord, waitMs: number): Promise<PaymentRecord | undefined>
  /** Records a refund that was proved on chain. A transaction can refund only one purchase, permanently. */
  refund(payment: PaymentRecord, purchase: Purchase, proof: TransferBackFound): Promise<RefundResult>
  /** Whether a call of this process works on the row. */
  isUnderWay(row: number): boolean
  /**
   * Prevents every call of this process from taking over a row by {@link Payments.resume}. A call that took over the row would
   * leave it with the same state and lease, so recovery, which has read the row before, would not notice the call.
   *
   * @returns a function that releases the row. Undefined if a call works on the row, or the row is already withheld
   */
  withhold(row: number): (() => void) | undefined
  /**
   * Passes orphaned payments to recovery. These are rows of this process on which none of its calls works, such as a claim that was
   * written after its call had got `store_unavailable`. Call it from time to time, with pauses that are longer than a claim's
   * response may take.
   *
   * @returns the number of payments
   */
  abandonOrphans(): Promise<number>
}
