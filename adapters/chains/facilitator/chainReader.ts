import type { PaymentIdentity, PaymentRecord } from '../../../core/domain/payment.ts'
import type { SettleOutcome, Settler } from '../../../core/ports/settler.ts'

/** What has to be known of a payment to look for it on chain; the payload, as JSON, tells when it has expired on Solana. */
export type TracedPayment = PaymentIdentity &
  Pick<PaymentRecord, 'attempt' | 'claimedAtMs' | 'transaction'> &
  Partial<Pick<PaymentRecord, 'payload'>>

/** Reads from the chain what became of a payment that somebody else settles. It sends nothing. */
export interface ChainReader {
  /** Waits for the transaction that the attempt names, and tells by its events or balances what it did. */
  prove(payment: TracedPayment, timeoutMs: number): Promise<SettleOutcome>
  /** Looks for the payment by its nonce, whoever broadcast it. Never rejects. */
  recover(payment: TracedPayment): Promise<SettleOutcome>
  stillOnChain(payment: TracedPayment): ReturnType<Settler['stillOnChain']>
  close(): void
}
