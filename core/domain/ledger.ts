import type { StoreId } from './link.ts'
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

const feesOwed = 'fees-owed:'

/**
 * What a store owes the platform, as an account of the ledger. It is the store of what pays for that: an invoice is a session of
 * this account, and what pays it is a purchase of it, so that nothing of either is among the store's own.
 */
export const feesAccountOf = (storeId: StoreId): StoreId => feesOwed + storeId

/** The store that owes on this account; undefined for a store. */
export const debtorOf = (account: StoreId): StoreId | undefined =>
  account.startsWith(feesOwed) ? account.slice(feesOwed.length) : undefined

/**
 * The entries of a sale in direct mode: the buyer paid the seller's own wallet, and the seller owes the platform its fee. Of fees
 * that were paid: whoever paid the operator's wallet has lowered what the store owes.
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
  if (debtorOf(storeId) !== undefined)
    return [line(`buyer:${buyerWallet}`, -amountAtomic, 'fee'), line(storeId, amountAtomic, 'fee')]
  return [
    line(`buyer:${buyerWallet}`, -amountAtomic, 'sale'),
    line(`seller:${storeId}`, amountAtomic, 'sale'),
    line(feesAccountOf(storeId), -feeAtomic, 'fee'),
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
