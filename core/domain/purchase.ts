import type { LinkId, StoreId } from './link.ts'
import type { AtomicAmount } from './money.ts'
import type { NetworkId } from './network.ts'
import type { PaymentKey } from './payment.ts'

export type PurchaseStatus = 'settled' | 'delivered' | 'refund_due' | 'refunded' | 'reorged'

/** A call that was paid for: exactly one per payment whose transfer is on chain. */
export interface Purchase {
  readonly id: string
  readonly paymentKey: PaymentKey
  readonly linkId: LinkId
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
