import type { Asset } from '../domain/asset.ts'
import type { LedgerEntry } from '../domain/ledger.ts'
import { entriesOfSale } from '../domain/ledger.ts'
import { feeOf, formatAmount } from '../domain/money.ts'
import type { PaymentIdentity } from '../domain/payment.ts'
import type { Purchase } from '../domain/purchase.ts'

/** What a purchase is made of; the gateway has it from the call, the reconciler from the stored payment. */
export interface SaleFacts
  extends Pick<PaymentIdentity, 'key' | 'network' | 'asset' | 'payer' | 'amountAtomic'> {
  readonly purchaseId: string
  readonly linkId: string
  readonly storeId: string
  readonly transaction: string
  readonly reviewTokenHash: string
  readonly atMs: number
}

/** The purchase of a settled payment, and the ledger entries that belong in the same commit. */
export function purchaseOf(
  sale: SaleFacts,
  asset: Asset,
): { readonly purchase: Purchase; readonly entries: readonly LedgerEntry[] } {
  const purchase: Purchase = {
    id: sale.purchaseId,
    paymentKey: sale.key,
    linkId: sale.linkId,
    storeId: sale.storeId,
    buyerWallet: sale.payer,
    network: sale.network,
    asset: sale.asset,
    symbol: asset.symbol,
    decimals: asset.decimals,
    amountAtomic: sale.amountAtomic,
    feeAtomic: feeOf(sale.amountAtomic, asset.feeBps),
    priceUsd: usdOf(sale.amountAtomic, asset),
    txHash: sale.transaction,
    status: 'settled',
    reviewTokenHash: sale.reviewTokenHash,
    createdAtMs: sale.atMs,
  }
  return { purchase, entries: entriesOfSale(purchase) }
}

/** What was paid, in USDC at the asset's configured rate, cut to 18 decimals: what revenue adds up. */
function usdOf(amountAtomic: bigint, asset: Asset): string {
  const [whole = '0', fraction = ''] = asset.usdPerUnit.split('.')
  const places = asset.decimals + fraction.length
  const scaled = amountAtomic * BigInt(whole + fraction)
  return places > 18 ? formatAmount(scaled / 10n ** BigInt(places - 18), 18) : formatAmount(scaled, places)
}
