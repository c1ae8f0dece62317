import { type Kysely, sql } from 'kysely'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import type { Refund } from '../../../core/domain/refund.ts'
import {
  type OwedBack,
  type PurchasePage,
  type Purchases,
  readCursor,
  SALES_LOOKED_AT,
} from '../../../core/ports/store/purchases.ts'
import { cutPage } from '../cutPage.ts'
import { type Packed, packed } from '../packed.ts'
import type { PurchaseTable, Schema } from '../schema.ts'

/** A purchase beside the key of its payment. */
export type PurchaseRow = PurchaseTable & { readonly key: Uint8Array }

type PageOptions = Parameters<Purchases['page']>[1]

/**
 * What the port Purchases asks a database for, for whoever has one to run it.
 *
 * @param kept how payments keep the wallet that was paid
 */
export function purchaseQueries(
  query: Kysely<Schema>,
  kept: (wallet: string) => Packed = (wallet) => wallet,
) {
  const withKey = () =>
    query
      .selectFrom('purchases as u')
      .innerJoin('payments as p', 'p.id', 'u.payment_id')
      .selectAll('u')
      .select('p.key')

  return {
    one: (id: string) => withKey().where('u.id', '=', id),

    /** One row more than the page shows, where there is one; see {@link pageOf}. */
    page(storeId: string, { cursor, limit, linkId, status }: PageOptions) {
      let page = withKey().where('u.store_id', '=', storeId)
      if (linkId !== undefined) page = page.where('u.link_id', '=', linkId)
      // In the words of the index `purchases_unusual`, so that it is used.
      if (status !== undefined)
        page = page
          .where('u.status', '=', status)
          .where(sql<boolean>`u.status NOT IN ('settled', 'delivered')`)
      if (cursor !== undefined) {
        const { atMs, id } = readCursor(cursor)
        page = page.where((e) => e(e.refTuple('u.created_at_ms', 'u.id'), '<', e.tuple(atMs, id)))
      }
      return page
        .orderBy('u.created_at_ms', 'desc')
        .orderBy('u.id', 'desc')
        .limit(limit + 1)
    },

    owedBack: ({ network, asset, from, to, amountAtomic }: OwedBack) =>
      query
        .selectFrom('purchases as u')
        .innerJoin('payments as p', 'p.id', 'u.payment_id')
        .select('u.id')
        .where('u.buyer_wallet', '=', to)
        // In the words of the index `purchases_owed`, so that it is used.
        .where(sql<boolean>`u.status = 'refund_due'`)
        .where('u.network', '=', network)
        .where('u.asset', '=', asset)
        .where('u.amount_atomic', '=', amountAtomic.toString())
        .where('p.pay_to', '=', kept(from))
        .limit(1),

    sold(storeId: string, { network, asset, from, to, amountAtomic }: OwedBack, sinceMs: number) {
      const newest = query
        .selectFrom('purchases')
        .select(['payment_id', 'buyer_wallet', 'network', 'asset', 'amount_atomic', 'status'])
        .where('store_id', '=', storeId)
        .where('created_at_ms', '>=', sinceMs)
        .orderBy('created_at_ms', 'desc')
        .orderBy('id', 'desc')
        .limit(SALES_LOOKED_AT)
      return query
        .selectFrom(newest.as('u'))
        .innerJoin('payments as p', 'p.id', 'u.payment_id')
        .select('u.payment_id')
        .where('u.buyer_wallet', '=', to)
        .where('u.network', '=', network)
        .where('u.asset', '=', asset)
        .where('u.amount_atomic', '=', amountAtomic.toString())
        .where('u.status', 'in', ['settled', 'delivered'])
        .where('p.pay_to', '=', kept(from))
        .limit(1)
    },

    refund: (purchaseId: string) =>
      query
        .selectFrom('refunds as r')
        .innerJoin('purchases as p', 'p.payment_id', 'r.payment_id')
        .where('p.id', '=', purchaseId)
        .select(['r.network', 'r.tx_hash', 'r.refunded_at_ms']),

    moves: (purchaseId: string) =>
      query.selectFrom('ledger').select('entries').where('purchase_id', '=', purchaseId).orderBy('move'),
  }
}

/** @param rows at most one more than `limit` */
export function pageOf(rows: readonly PurchaseRow[], limit: number): PurchasePage {
  const { shown, nextCursor } = cutPage(rows, limit, (row) => [row.created_at_ms, row.id])
  return { purchases: shown.map(toPurchase), nextCursor }
}

export const toRefund = (
  purchaseId: string,
  row: { readonly network: string; readonly tx_hash: string; readonly refunded_at_ms: number },
): Refund => ({
  purchaseId,
  network: row.network as NetworkId,
  transaction: row.tx_hash,
  refundedAtMs: row.refunded_at_ms,
})

export const toPurchase = (row: PurchaseRow): Purchase => ({
  id: row.id,
  paymentKey: Buffer.from(row.key).toString('hex'),
  linkId: row.link_id || null,
  sessionId: row.session_id,
  storeId: row.store_id,
  buyerWallet: row.buyer_wallet,
  network: row.network as NetworkId,
  asset: row.asset,
  symbol: row.symbol,
  decimals: row.decimals,
  amountAtomic: BigInt(row.amount_atomic),
  feeAtomic: BigInt(row.fee_atomic),
  priceUsd: row.price_usd,
  txHash: row.tx_hash && packed.hexText(row.tx_hash),
  status: row.status as Purchase['status'],
  reviewTokenHash: packed.callText(row.review_token_hash),
  createdAtMs: row.created_at_ms,
})
