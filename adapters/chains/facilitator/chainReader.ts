import type { PaymentIdentity, PaymentRecord } from '../../../core/domain/payment.ts'
import type { LookedUp, OnChain, SettleOutcome } from '../../../core/ports/chains/settler.ts'

/** What has to be known of a payment to look for it on chain; the payload, as JSON, tells when it has expired on Solana. */
export type TracedPayment = PaymentIdentity &
  Pick<PaymentRecord, 'attempt' | 'claimedAtMs' | 'transaction'> &
  Partial<Pick<PaymentRecord, 'payload' | 'block' | 'event'>> &
  Pick<LookedUp, 'withheld'>

/** Reads from the chain what became of a payment that somebody else settles. It sends nothing. */
export interface ChainReader {
  /** Waits for the transaction that the attempt names, and tells by its events or balances what it did. */
  prove(payment: TracedPayment, timeoutMs: number): Promise<SettleOutcome>
  /** Looks for payments by their nonces, whoever broadcast them; an outcome for each, in order. Never rejects. */
  recover(payments: readonly TracedPayment[]): Promise<SettleOutcome[]>
  /** As the settler's. */
  stillOnChain(payments: readonly TracedPayment[]): Promise<OnChain[]>
  close(): void
}
