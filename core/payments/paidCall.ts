import type { PaymentIdentity, PaymentState, SettlementAttempt } from '../domain/payment.ts'
import type { PaymentChange } from '../ports/books.ts'
import type { Hold, Settler } from '../ports/settler.ts'
import type { PaymentPayload, PaymentRequirements } from '../x402/types.ts'

/** A payment that came with the call, checked against the link's own terms and its signature. */
export interface PresentedPayment {
  readonly payload: PaymentPayload
  readonly terms: PaymentRequirements
  readonly identity: PaymentIdentity
  readonly settler: Settler
  /**
   * Why the payment can't be claimed now: its time is over, or the link's terms are others by now. It still gets what
   * it has bought already. Null for a payment that may be claimed.
   */
  readonly unclaimable: Error | null
}

/** The call that a payment is used for. */
export interface PaidFor {
  readonly linkId: string
  readonly storeId: string
  /** SHA-256, hex, of method, path, query and body. */
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
}

/** How a payment stands, as far as the call knows that works on it. Only for this folder. */
export class OpenCall implements PaidCall {
  readonly payment: PresentedPayment
  readonly call: PaidFor
  readonly row: number
  readonly purchaseId: string
  lease: number | null
  state: PaymentState
  /** False after a write whose answer did not come, or that was refused: the row has to be read. */
  isSure = true
  /** Somebody else has moved the row, and what becomes of it is theirs to say, even under a lease of this process. */
  isLost = false
  hold: Hold | null = null
  attempt: SettlementAttempt | null = null
  /** The settler may have sent what was stored. */
  hasBegun = false
  hasAnswer = false
  landed: NonNullable<PaymentChange['settled']> | null = null
  /** The call has ended. */
  isOver = false

  constructor(
    payment: PresentedPayment,
    call: PaidFor,
    row: number,
    purchaseId: string,
    lease: number,
    state: PaymentState,
  ) {
    this.payment = payment
    this.call = call
    this.row = row
    this.purchaseId = purchaseId
    this.lease = lease
    this.state = state
  }
}
