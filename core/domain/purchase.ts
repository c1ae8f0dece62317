import type { LinkId, StoreId } from './link.ts'
import type { AtomicAmount } from './money.ts'
import type { NetworkId } from './network.ts'
import type { PaymentKey } from './payment.ts'

export type PurchaseStatus = 'settled' | 'delivered' | 'refund_due' | 'refunded' | 'reorged'

/** Rare statuses for which users search: the money is owed back, was refunded, or left the chain. */
export const unusualStatuses = [
  'refund_due',
  'refunded',
  'reorged',
] as const satisfies readonly PurchaseStatus[]
export type UnusualStatus = (typeof unusualStatuses)[number]

/** A paid call or payment session. There is exactly one purchase per payment whose transfer is on chain. */
export interface Purchase {
  readonly id: string
  readonly paymentKey: PaymentKey
  /** Null if the purchase is not for a link. */
  readonly linkId: LinkId | null
  /** The payment session that was paid. Null for a call. */
  readonly sessionId: string | null
  readonly storeId: StoreId
  readonly buyerWallet: string
  readonly network: NetworkId
  readonly asset: string
  readonly symbol: string
  readonly decimals: number
  /** The amount that the buyer has authorized. It is more than `amountAtomic` only if the call was charged by its use. */
  readonly authorizedAtomic: AtomicAmount
  /** The charged amount. */
  readonly amountAtomic: AtomicAmount
  readonly feeAtomic: AtomicAmount
  /** The link's price in USDC at the time of the purchase, as a decimal string. Revenue is the sum of these prices. */
  readonly priceUsd: string
  /** Null if the payment has no transaction of its own. */
  readonly txHash: string | null
  readonly status: PurchaseStatus
  /** SHA-256, hex, of the review token. */
  readonly reviewTokenHash: string
  readonly createdAtMs: number
}

/** The transfer by which a seller has refunded a buyer. A purchase has at most one, which refunds no other purchase. */
export interface Refund {
  readonly purchaseId: string
  readonly network: NetworkId
  /** Hash (EVM, lower case) or signature (Solana, base58) of the refund transfer. */
  readonly transaction: string
  readonly refundedAtMs: number
}

/** A refund that was recorded and then left the chain. It refunds nothing now, and can never refund another purchase. */
export interface LostRefund extends Refund {
  readonly lostAtMs: number
}
