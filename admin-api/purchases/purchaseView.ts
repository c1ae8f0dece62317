import { formatAmount } from '../../core/domain/money.ts'
import { chainNameOf, explorerUrl } from '../../core/domain/network.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import type { Links } from '../../core/ports/store/links.ts'
import { isoTime } from '../http/envelope.ts'
import { exactly, text, textOrNull, time, uuid } from '../schema/answers.ts'

/** A purchase as its seller sees it. Amounts are decimal strings in `currency`. */
export const purchaseSchema = exactly({
  id: uuid,
  linkId: { ...textOrNull('Null for a payment of any amount.'), format: 'uuid' },
  sessionId: { ...textOrNull('The payment session that it paid.'), format: 'uuid' },
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
  sessionId: purchase.sessionId,
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
  explorerUrl: purchase.txHash === null ? null : (explorerUrl(purchase.network, purchase.txHash) ?? null),
  createdAt: isoTime(purchase.createdAtMs),
})

export type PurchaseView = ReturnType<typeof toPurchaseView>

/** {@link purchaseSchema}, and how the seller calls what was sold. */
export const titledPurchaseSchema = exactly({
  ...purchaseSchema.properties,
  linkTitle: textOrNull('What the link is called by now, deleted ones too.'),
})

/** Purchases as {@link titledPurchaseSchema} has them, in their order. */
export async function toTitledViews(links: Pick<Links, 'titlesOf'>, purchases: readonly Purchase[]) {
  const titles = await links.titlesOf([...new Set(purchases.flatMap(({ linkId }) => linkId ?? []))])
  return purchases.map((purchase) => {
    const linkTitle = (purchase.linkId && titles.get(purchase.linkId)) ?? null
    return { ...toPurchaseView(purchase), linkTitle }
  })
}
