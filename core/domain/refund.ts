import type { NetworkId } from './network.ts'

/** The transfer by which a seller gave a buyer's money back: at most one of a purchase, and it pays back no other one. */
export interface Refund {
  readonly purchaseId: string
  readonly network: NetworkId
  /** Hash (EVM, lower case) or signature (Solana, base58) of the transfer back. */
  readonly transaction: string
  readonly refundedAtMs: number
}
