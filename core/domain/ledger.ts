import type { AtomicAmount } from './money.ts'
import type { Purchase } from './purchase.ts'

/** One side of a double entry. The entries of one purchase add up to zero per asset. */
export interface LedgerEntry {
  readonly purchaseId: string
  /** `buyer:<wallet>`, `seller:<storeId>`, `fees-owed:<storeId>`, `platform:fees`. */
  readonly account: string
  readonly network: string
  readonly asset: string
  readonly amountAtomic: AtomicAmount
  readonly kind: 'sale' | 'fee' | 'refund'
}

/**
 * The entries of a sale in direct mode: the buyer paid the seller's own wallet, and the seller owes the platform its fee.
 */
export function entriesOfSale(purchase: Purchase): LedgerEntry[] {
  const { id, network, asset, amountAtomic, feeAtomic, storeId, buyerWallet } = purchase
  const line = (account: string, amount: AtomicAmount, kind: LedgerEntry['kind']): LedgerEntry => ({
    purchaseId: id,
    account,
    network,
    asset,
    amountAtomic: amount,
    kind,
  })
  return [
    line(`buyer:${buyerWallet}`, -amountAtomic, 'sale'),
    line(`seller:${storeId}`, amountAtomic, 'sale'),
    line(`fees-owed:${storeId}`, -feeAtomic, 'fee'),
    line('platform:fees', feeAtomic, 'fee'),
  ]
}

/** The entries that take a sale back: each line of the sale, negated. */
export function entriesOfRefund(purchase: Purchase): LedgerEntry[] {
  return entriesOfSale(purchase).map((e) => ({
    ...e,
    amountAtomic: -e.amountAtomic,
    kind: 'refund' as const,
  }))
}
