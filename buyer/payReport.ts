import type { BuyerScheme } from '../core/x402/types.ts'

export type PayOutcome =
  | 'free'
  | 'paid'
  | 'refunded'
  | 'refused'
  | 'above_cap'
  | 'failed'
  | 'rejected'
  | 'unverified'
  | 'unknown'
  | 'bad_response'
  | 'under_way'
  | 'vault_refused'
  | 'over_budget'
  | 'vault_locked'
  | 'vault_unavailable'
  | 'vault_unanswered'

/** Whether the buyer's money has moved. `not_yet` means that the signed payment can still be used. */
export type Charged = 'yes' | 'no' | 'not_yet' | 'unknown'

/** What was signed or would be signed, as shown before and after signing. */
export interface PaymentSummary {
  /** `upto` if the seller may charge less than `amount`, down to nothing. `batch-settlement` if a channel pays. */
  readonly scheme: BuyerScheme
  readonly network: string
  readonly symbol: string
  /** In whole units, as a decimal string. In scheme `upto`, the most that can be charged. */
  readonly amount: string
  /** Value of the amount in USD, as a decimal string. */
  readonly usd: string
  readonly payTo: string
  readonly payer: string
  /** The seller's own text, which is untrusted. */
  readonly description: string
}

/** The payment channel that paid a call. Amounts are in whole units, as decimal strings. */
export interface ChannelSummary {
  readonly id: string
  /** What is left of the deposits. The buyer gets it back by a refund, or by a withdrawal without the seller. */
  readonly left: string
  /** Time that a withdrawal takes without the seller. */
  readonly withdrawDelaySeconds: number
}

/** The seller's response, with the bytes as received. */
export interface PaidResponse {
  readonly status: number
  readonly contentType: string
  /** Target of a redirect, as received. Null if there is none. A payment is never sent to it. */
  readonly location: string | null
  readonly body: Uint8Array
  /** False if the connection broke or the body was larger than the limit. */
  readonly isComplete: boolean
}

/** The outcome of a run of `tollgate pay`. */
export interface PayReport {
  readonly outcome: PayOutcome
  /** What happened and what to do, as sentences for the user. May quote the seller. */
  readonly message: string
  readonly url: string
  readonly payment: PaymentSummary | null
  /** Whether the chain confirmed the transaction. */
  readonly isVerified: boolean
  /** Whether the money has moved by the chain. `no` if nothing was signed. */
  readonly charged: Charged
  /** The amount that the chain shows as charged, in whole units as a decimal string. Null if the chain shows none. */
  readonly chargedAmount: string | null
  readonly transaction: string | null
  /** Null if no payment channel was used. */
  readonly channel: ChannelSummary | null
  readonly response: PaidResponse | null
  /** How often the payment was sent. */
  readonly attempts: number
  /** Where the payment is stored for `--resume`. Null if there is nothing to resume. */
  readonly stateFile: string | null
  /** The seller's signed receipt of this payment (x402 extension `offer-receipt`). Null if there is none that is valid. */
  readonly signedReceipt: object | null
  readonly warnings: readonly string[]
}
