import { sql } from 'kysely'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import { cursorAt, type Purchases, readCursor, SALES_LOOKED_AT } from '../../../core/ports/purchases.ts'
import { compiled } from '../compiled.ts'
import type { Database } from '../database.ts'
import type { ReaderThread } from '../readerThread.ts'
import type { PurchaseTable } from '../schema.ts'
import { toEntries } from './bookRows.ts'
import { checkLedger } from './ledgerCheck.ts'

/** Purchases in SQLite: reads only. */
export function createPurchases(database: Database, path: string, thread: ReaderThread): Purchases {
  const { query } = database

  return {
    async find(id) {
      const row = await withKey(query).where('u.id', '=', id).executeTakeFirst()
      return row && toPurchase(row)
    },

    async page(storeId, { cursor, limit, linkId, status }) {
      let page = withKey(query).where('u.store_id', '=', storeId)
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
      const [found] = await thread.of(storeId).read(
        compiled(
          page
            .orderBy('u.created_at_ms', 'desc')
            .orderBy('u.id', 'desc')
            .limit(limit + 1),
        ),
      )
      const rows = found as unknown as PurchaseRow[]
      const shown = rows.slice(0, limit)
      const last = rows.length > limit ? shown.at(-1) : undefined
      return {
        purchases: shown.map(toPurchase),
        nextCursor: last === undefined ? null : cursorAt(last.created_at_ms, last.id),
      }
    },

    async isOwedBack({ network, asset, from, to, amountAtomic }) {
      const row = await query
        .selectFrom('purchases as u')
        .innerJoin('payments as p', 'p.id', 'u.payment_id')
        .select('u.id')
        .where('u.buyer_wallet', '=', to)
        // In the words of the index `purchases_owed`, so that it is used.
        .where(sql<boolean>`u.status = 'refund_due'`)
        .where('u.network', '=', network)
        .where('u.asset', '=', asset)
        .where('u.amount_atomic', '=', amountAtomic.toString())
        .where('p.pay_to', '=', from)
        .executeTakeFirst()
      return row !== undefined
    },

    async hasSold(storeId, { network, asset, from, to, amountAtomic }, sinceMs) {
      const newest = query
        .selectFrom('purchases')
        .select(['payment_id', 'buyer_wallet', 'network', 'asset', 'amount_atomic', 'status'])
        .where('store_id', '=', storeId)
        .where('created_at_ms', '>=', sinceMs)
        .orderBy('created_at_ms', 'desc')
        .orderBy('id', 'desc')
        .limit(SALES_LOOKED_AT)
      const sold = query
        .selectFrom(newest.as('u'))
        .innerJoin('payments as p', 'p.id', 'u.payment_id')
        .select('u.payment_id')
        .where('u.buyer_wallet', '=', to)
        .where('u.network', '=', network)
        .where('u.asset', '=', asset)
        .where('u.amount_atomic', '=', amountAtomic.toString())
        .where('u.status', 'in', ['settled', 'delivered'])
        .where('p.pay_to', '=', from)
        .limit(1)
      const [found] = await thread.of(storeId).read(compiled(sold))
      return found!.length > 0
    },

    async refundOf(purchaseId) {
      const row = await query
        .selectFrom('refunds as r')
        .innerJoin('purchases as p', 'p.payment_id', 'r.payment_id')
        .where('p.id', '=', purchaseId)
        .select(['r.network', 'r.tx_hash', 'r.refunded_at_ms'])
        .executeTakeFirst()
      return (
        row && {
          purchaseId,
          network: row.network as NetworkId,
          transaction: row.tx_hash,
          refundedAtMs: row.refunded_at_ms,
        }
      )
    },

    async ledger(purchaseId) {
      const moves = await query
        .selectFrom('ledger')
        .select('entries')
        .where('purchase_id', '=', purchaseId)
        .orderBy('move')
        .execute()
      return moves.flatMap(({ entries }) => toEntries(purchaseId, entries))
    },

    ledgerCheck: (ears) => checkLedger(path, database.clock.now(), ears),
  }
}

const withKey = (query: Database['query']) =>
  query
    .selectFrom('purchases as u')
    .innerJoin('payments as p', 'p.id', 'u.payment_id')
    .selectAll('u')
    .select('p.key')

type PurchaseRow = PurchaseTable & { readonly key: Uint8Array }

const toPurchase = (row: PurchaseRow): Purchase => ({
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
  txHash: row.tx_hash,
  status: row.status as Purchase['status'],
  reviewTokenHash: row.review_token_hash,
  createdAtMs: row.created_at_ms,
})
