import type { LinkId, StoreId } from './link.ts'
import type { AtomicAmount } from './money.ts'
import type { NetworkId } from './network.ts'
import type { PaymentKey } from './payment.ts'

export type PurchaseStatus = 'settled' | 'delivered' | 'refund_due' | 'refunded' | 'reorged'

/** Of few purchases, and what somebody looks for: money that is owed, went back, or left the chain. */
export const unusualStatuses = [
  'refund_due',
  'refunded',
  'reorged',
] as const satisfies readonly PurchaseStatus[]
export type UnusualStatus = (typeof unusualStatuses)[number]

/** A call or a payment session that was paid for: exactly one per payment whose transfer is on chain. */
export interface Purchase {
  readonly id: string
  readonly paymentKey: PaymentKey
  /** Null where no link was sold. */
  readonly linkId: LinkId | null
  /** The payment session that it paid; null for a call. */
  readonly sessionId: string | null
  readonly storeId: StoreId
  readonly buyerWallet: string
  readonly network: NetworkId
  readonly asset: string
  readonly symbol: string
  readonly decimals: number
  readonly amountAtomic: AtomicAmount
  readonly feeAtomic: AtomicAmount
  /** The link's price in USDC when it was bought, decimal string: what revenue adds up. */
  readonly priceUsd: string
  /** Null where the payment has no transaction of its own. */
  readonly txHash: string | null
  readonly status: PurchaseStatus
  /** SHA-256, hex, of the review token. */
  readonly reviewTokenHash: string
  readonly createdAtMs: number
}
