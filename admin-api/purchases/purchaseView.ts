import { formatAmount } from '../../core/domain/money.ts'
import { chainNameOf, factsOf } from '../../core/domain/network.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import { isoTime } from '../http/envelope.ts'
import { exactly, text, textOrNull, time, uuid } from '../schema/answers.ts'

/** A purchase as its seller sees it. Amounts are decimal strings in `currency`. */
export const purchaseSchema = exactly({
  id: uuid,
  linkId: uuid,
  status: { enum: ['settled', 'delivered', 'refund_due', 'refunded', 'reorged'] },
  amount: text('What the buyer paid.'),
  fee: text("The platform's share of it."),
  currency: text(),
  price: text('USDC; the price of the link at that time.'),
  chain: { enum: ['base', 'solana'] },
  network: text('CAIP-2.'),
  asset: text(),
  buyerWallet: text(),
  txHash: text(),
  explorerUrl: textOrNull(),
  createdAt: time,
})

export const toPurchaseView = (purchase: Purchase) => ({
  id: purchase.id,
  linkId: purchase.linkId,
  status: purchase.status,
  amount: formatAmount(purchase.amountAtomic, purchase.decimals, 2),
  fee: formatAmount(purchase.feeAtomic, purchase.decimals, 2),
  currency: purchase.symbol,
  price: purchase.priceUsd,
  chain: chainNameOf(purchase.network),
  network: purchase.network,
  asset: purchase.asset,
  buyerWallet: purchase.buyerWallet,
  txHash: purchase.txHash ?? '',
  explorerUrl: explorerUrlOf(purchase),
  createdAt: isoTime(purchase.createdAtMs),
})

export type PurchaseView = ReturnType<typeof toPurchaseView>

function explorerUrlOf(purchase: Purchase): string | null {
  const base = factsOf(purchase.network)?.explorerTx
  if (base === undefined || purchase.txHash === null) return null
  return base + encodeURIComponent(purchase.txHash)
}
