import { type Kysely, sql } from 'kysely'
import type { NetworkId } from '../../../../core/domain/network.ts'
import type { LostRefund, Purchase, Refund } from '../../../../core/domain/purchase.ts'
import {
  type OwedBack,
  type PurchasePage,
  type Purchases,
  readCursor,
  SALES_CHECKED,
} from '../../../../core/ports/store/purchases.ts'
import { cutPage } from '../rows.ts'
import type { Packed, PurchaseTable, Schema } from '../schema.ts'
import { packed } from './paymentRows.ts'

/** A purchase with the key and the authorized amount of its payment. */
export type PurchaseRow = PurchaseTable & { readonly key: Uint8Array; readonly authorized_atomic: string }

type Buyer = Parameters<Purchases['givingAccess']>[1]
type PageOptions = Parameters<Purchases['page']>[1]

/**
 * The queries of the port `Purchases`, for both databases.
 * @param kept converts a paid wallet to the form in which payments store it
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
      .select(['p.key', 'p.amount_atomic as authorized_atomic'])

  return {
    one: (id: string) => withKey().where('u.id', '=', id),

    /** Returns one row more than the page when there is another page. See {@link pageOf}. */
    page(storeId: string, { cursor, limit, linkId, status }: PageOptions) {
      let page = withKey().where('u.store_id', '=', storeId)
      if (linkId !== undefined) page = page.where('u.link_id', '=', linkId)
      // The query repeats the condition of the index `purchases_unusual`, so that the database uses it.
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
        // The query repeats the condition of the index `purchases_owed`, so that the database uses it.
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
        .limit(SALES_CHECKED)
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

    givingAccess(linkId: string, { wallet, network }: Buyer, sinceMs: number) {
      const found = query
        .selectFrom('link_buyers as b')
        .innerJoin('purchases as u', 'u.payment_id', 'b.payment_id')
        .select('u.id')
        .where('b.link_id', '=', linkId)
        .where('b.wallet', '=', wallet.startsWith('0x') ? wallet.toLowerCase() : wallet)
        .where('b.at_ms', '>=', sinceMs)
        .where('u.status', 'in', ['settled', 'delivered'])
        .orderBy('b.at_ms', 'desc')
        .limit(1)
      return network === null ? found : found.where('u.network', '=', network)
    },

    refund: (purchaseId: string) =>
      query
        .selectFrom('refunds as r')
        .innerJoin('purchases as p', 'p.payment_id', 'r.payment_id')
        .where('p.id', '=', purchaseId)
        .select(['r.network', 'r.tx_hash', 'r.refunded_at_ms']),

    lostRefunds: (purchaseId: string) =>
      query
        .selectFrom('purchases as p')
        .innerJoin('lost_refunds as r', 'r.payment_id', 'p.payment_id')
        .where('p.id', '=', purchaseId)
        .select(['r.network', 'r.tx_hash', 'r.refunded_at_ms', 'r.lost_at_ms'])
        .orderBy('r.lost_at_ms')
        .orderBy('r.refunded_at_ms'),

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

export const toLostRefund = (
  purchaseId: string,
  { lost_at_ms: lostAtMs, ...row }: Parameters<typeof toRefund>[1] & { readonly lost_at_ms: number },
): LostRefund => ({ ...toRefund(purchaseId, row), lostAtMs })

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
  authorizedAtomic: BigInt(row.authorized_atomic),
  amountAtomic: BigInt(row.amount_atomic),
  feeAtomic: BigInt(row.fee_atomic),
  priceUsd: row.price_usd,
  txHash: row.tx_hash && packed.hexText(row.tx_hash),
  status: row.status as Purchase['status'],
  reviewTokenHash: packed.callText(row.review_token_hash),
  createdAtMs: row.created_at_ms,
})
