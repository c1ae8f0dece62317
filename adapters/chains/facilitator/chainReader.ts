import type { PaymentIdentity, PaymentRecord } from '../../../core/domain/payment.ts'
import type { OnChain, SettleOutcome, TracedRecord } from '../../../core/ports/chains/settler.ts'

/**
 * The fields that identify a payment on chain. On Solana the payload (JSON) contains the block hash that decides when the payment
 * expires.
 */
export type TracedPayment = PaymentIdentity &
  Pick<PaymentRecord, 'attempt' | 'claimedAtMs' | 'transaction'> &
  Partial<Pick<PaymentRecord, 'payload' | 'block' | 'event' | 'chargedAtomic'>> &
  Pick<TracedRecord, 'withheld'>

/** Reads from the chain the outcome of a payment that a facilitator settles. It sends nothing. */
export interface ChainReader {
  /** Waits for the transaction that the attempt names, and reads its effect from its events or balances. */
  prove(payment: TracedPayment, timeoutMs: number): Promise<SettleOutcome>
  /** Searches for payments by their nonces, regardless of the sender. Returns an outcome for each, in order. Never rejects. */
  recover(payments: readonly TracedPayment[]): Promise<SettleOutcome[]>
  /** See `Settler.stillOnChain`. */
  stillOnChain(payments: readonly TracedPayment[]): Promise<OnChain[]>
  close(): void
}
