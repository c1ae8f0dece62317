export type PayOutcome =
  | 'free'
  | 'paid'
  | 'refused'
  | 'above_cap'
  | 'failed'
  | 'rejected'
  | 'unverified'
  | 'unknown'
  | 'bad_answer'
  | 'under_way'
  | 'vault_refused'
  | 'over_budget'
  | 'vault_locked'
  | 'vault_away'
  | 'vault_unanswered'

/** Whether the buyer's money moved: `not_yet` means that the signed payment can still be used. */
export type Charged = 'yes' | 'no' | 'not_yet' | 'unknown'

/** What was signed, or would have been: shown before and after. */
export interface PaymentSummary {
  readonly network: string
  readonly symbol: string
  /** Decimal string in whole units. */
  readonly amount: string
  /** What it is worth in USD, decimal string. */
  readonly usd: string
  readonly payTo: string
  readonly payer: string
  /** The seller's words; untrusted. */
  readonly description: string
}

/** The seller's answer; the bytes as received. */
export interface PaidAnswer {
  readonly status: number
  readonly contentType: string
  /** Where a redirect leads, as received; null without one. It is never followed with a payment. */
  readonly location: string | null
  readonly body: Uint8Array
  /** False when the connection broke or the body was longer than the limit. */
  readonly isComplete: boolean
}

/** How a run of `tollgate pay` ended. */
export interface PayReport {
  readonly outcome: PayOutcome
  /** What happened and what to do, for a person. May quote the seller. */
  readonly message: string
  readonly url: string
  readonly payment: PaymentSummary | null
  /** True only when the chain confirmed the transaction. */
  readonly isVerified: boolean
  /** Whether the money moved, as far as the chain says; `no` when nothing was signed. */
  readonly charged: Charged
  readonly transaction: string | null
  readonly answer: PaidAnswer | null
  /** How often the payment was sent. */
  readonly attempts: number
  /** Where the payment is kept for `--resume`; null when there is nothing to resume. */
  readonly stateFile: string | null
  readonly warnings: readonly string[]
}
