import type { PaymentIdentity, PaymentRecord, StoredAnswer } from '../domain/payment.ts'
import type { Purchase } from '../domain/purchase.ts'
import type { Refusal, Settler } from '../ports/chains/settler.ts'
import type { TransferBackFound } from '../ports/store/books.ts'
import type { PaymentPayload, PaymentRequirements } from '../x402/types.ts'

/** A payment that came with the call, checked against the link's own terms and its signature. */
export interface PresentedPayment {
  readonly payload: PaymentPayload
  readonly terms: PaymentRequirements
  readonly identity: PaymentIdentity
  /** Null where no settler could check it: then it is never claimable, and came signed as it stands in the books. */
  readonly settler: Settler | null
  /**
   * Why the payment can't be claimed now: its time is over, or the link's terms are others by now. It still gets what
   * it has bought already. Null for a payment that may be claimed.
   */
  readonly unclaimable: Error | null
}

/** The call, or the payment session, that a payment is used for. */
export interface PaidFor {
  /** Null where no link is sold. */
  readonly linkId: string | null
  /** Null for a call. What pays a session is delivered by the commit that confirms it. */
  readonly sessionId: string | null
  readonly storeId: string
  /** SHA-256, hex, of method, path, query and body, and a mark of who made the call. */
  readonly requestHash: string
  /** The buyer is charged before the seller works. */
  readonly settlesFirst: boolean
}

/**
 * This call's right to use a payment: won once. The engine's verbs take it, and only they know how it stands; whoever won
 * it says `deliver` in the end, whatever became of the call.
 */
export interface PaidCall {
  /** Number of the row in the books. */
  readonly row: number
  /** Known before anything is charged, so that a buyer hears it even when the outcome is open. */
  readonly purchaseId: string
  /** False while nothing can have been sent to the chain. */
  readonly mayBeCharged: boolean
}

/** A payment whose kept answer is handed out, whoever has bought it. */
export type HandedOut = Pick<PaidCall, 'row' | 'purchaseId'>

/** How a settlement ended for the call that asked for it. */
export type SettleEnd =
  /** The money is on chain, and {@link Payments.record} has to say so. */
  | { readonly status: 'settled'; readonly transaction: string | null; readonly chargedAtomic: bigint }
  /** It was sent, or may have been; `transaction` is empty while none is known. */
  | { readonly status: 'pending'; readonly transaction: string; readonly reason: string }
  /** It can never land. */
  | { readonly status: 'failed'; readonly transaction: string; readonly reason: string }
  /** Nothing was sent: the payment is as good as before. */
  | {
      readonly status: 'rejected'
      readonly reason: string
      readonly message: string
      readonly transient?: boolean
    }

/** What became of the answer of a call that is over. */
export type Fate =
  /** It was handed over. */
  | 'delivered'
  /** Its buyer had hung up. */
  | 'not_collected'
  /** The gateway itself failed to send it. */
  | 'unsent'
  /** The seller refused, broke off or never answered. */
  | 'seller_failed'
  /** It was charged, and ended before the seller was asked. */
  | 'not_asked'
  /** The call ended before anything was to be charged. */
  | 'not_charged'

export type RefundResult =
  /** It is booked, now or before. */
  | 'refunded'
  /** Another transaction has paid this purchase back. */
  | 'refunded_otherwise'
  /** The transaction pays for a purchase, or has paid another one back. */
  | 'transaction_used'
  /** It is not charged: nothing can be paid back. */
  | 'not_refundable'

/**
 * The payment engine: whatever is done with a payment is one of these verbs, and every change of the books that they make
 * is one of rules.ts. Each rejects with `store_unavailable` when the store can not say; the caller then refuses the
 * request, because serving a paid call twice is worse than asking the buyer to try again. Of a call
 * that has ended nothing is verified, settled or recorded any more: whoever wakes up late with it gets an error.
 */
export interface Payments {
  /**
   * One insert against the unique key: the first caller wins, everyone after gets the row as it stands. One whose outcome is
   * open is looked up on chain now, not when its turn comes, and so is what {@link Payments.find} finds.
   */
  claim(
    presented: PresentedPayment,
    call: PaidFor,
  ): Promise<{ readonly won: PaidCall } | { readonly lost: PaymentRecord }>
  /**
   * Asks whether the payment could be settled now, before the seller works; whatever could refuse it is asked. Its place
   * among the payments on their way is held until the call has ended.
   */
  verify(paid: PaidCall): Promise<{ readonly ok: true } | Refusal>
  /**
   * Before what can't be taken back, such as asking the seller: whether the payment is this call's still. It costs a look at a
   * clock; after the process stood still for longer than its lease lasts the row is read.
   *
   * @throws what the buyer hears when somebody else has moved it
   */
  assertHeld(paid: PaidCall): void | Promise<void>
  /**
   * Stores what was signed and the seller's answer, broadcasts, and waits for the outcome.
   *
   * @param answer what a repeated call gets; null where the seller works only now
   * @param amountAtomic what is charged, where it is less than was authorised
   * @throws `settlement_unavailable`, `store_unavailable`: it could not begin, and nothing was sent; `SESSION_NOT_OPEN` when the
   *   session has ended, or another payment is being settled for it
   */
  settle(paid: PaidCall, answer: StoredAnswer | null, amountAtomic?: bigint): Promise<SettleEnd>
  /**
   * Writes that it is settled, with the purchase and its ledger entries, in one commit.
   *
   * @throws what the buyer hears: `settlement_pending` while it can't be said, `payment_already_used` when it is owed back
   *   or paid back meanwhile
   */
  record(paid: PaidCall): Promise<void>
  /**
   * Ends a call: after its answer was handed over or could not be. What becomes of the row is a rule; it is written in the
   * background, and insisted on while the store is away. For a payment whose kept answer somebody else handed out, it
   * notes that.
   *
   * @param answer to keep for a repeated call, where the link charges first
   * @param reason why the call failed
   */
  deliver(paid: PaidCall | HandedOut, fate: Fate, answer?: StoredAnswer, reason?: string): void
  /**
   * Takes up a payment that landed when nobody waited any more: its buyer is back.
   * @returns undefined when it is owed for another reason, or somebody else was faster
   */
  resume(record: PaymentRecord, presented: PresentedPayment, call: PaidFor): Promise<PaidCall | undefined>
  find(key: string): Promise<PaymentRecord | undefined>
  answerOf(record: PaymentRecord): Promise<StoredAnswer | undefined>
  /**
   * Waits until a payment stands otherwise than it was seen. Told at once of what this process does; what others do is
   * found by reading now and then, and those who wait for the same payment share that.
   * @returns undefined when the time is over
   */
  changed(seen: PaymentRecord, waitMs: number): Promise<PaymentRecord | undefined>
  /** Books a transfer back that was proved on chain. One transaction refunds one purchase, for good. */
  refund(payment: PaymentRecord, purchase: Purchase, proof: TransferBackFound): Promise<RefundResult>
  /** Whether a call of this process works on the row. */
  isUnderWay(row: number): boolean
  /**
   * Until it is let go no call of this process takes the row up ({@link Payments.resume}): it would be in the state and under the lease
   * in which whoever decides about it has read it, and is another one all the same.
   * @returns lets it go; undefined where a call works on it, or somebody else withholds it
   */
  withhold(row: number): (() => void) | undefined
  /**
   * Leaves rows of this process's, that no call of it works on, to the recovery: claims that landed after their call had
   * heard that the store is away. To be asked now and then, with time between for a claim to come back in.
   * @returns how many
   */
  leaveStrays(): Promise<number>
}
