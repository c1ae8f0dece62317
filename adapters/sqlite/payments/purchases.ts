import { sql } from 'kysely'
import type { LedgerEntry } from '../../../core/domain/ledger.ts'
import { parseAmount } from '../../../core/domain/money.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import { cursorAt, type Purchases, readCursor } from '../../../core/ports/purchases.ts'
import { compiled } from '../compiled.ts'
import type { Database } from '../database.ts'
import type { PurchaseTable } from '../schema.ts'
import { checkLedger } from './ledgerCheck.ts'

/** Purchases that count as revenue: paid for, and not taken back. */
const standing = ['settled', 'delivered']

/** Purchases in SQLite: reads only, and the views counted beside them. */
export function createPurchases(database: Database, path: string): Purchases {
  const { query, writer } = database

  return {
    async find(id) {
      const row = await withKey(query).where('u.id', '=', id).executeTakeFirst()
      return row && toPurchase(row)
    },

    async page(storeId, { cursor, limit, linkId }) {
      let page = withKey(query).where('u.store_id', '=', storeId)
      if (linkId !== undefined) page = page.where('u.link_id', '=', linkId)
      if (cursor !== undefined) {
        const { atMs, id } = readCursor(cursor)
        page = page.where((e) => e(e.refTuple('u.created_at_ms', 'u.id'), '<', e.tuple(atMs, id)))
      }
      const rows = await page
        .orderBy('u.created_at_ms', 'desc')
        .orderBy('u.id', 'desc')
        .limit(limit + 1)
        .execute()
      const shown = rows.slice(0, limit)
      const last = rows.length > limit ? shown.at(-1) : undefined
      return {
        purchases: shown.map(toPurchase),
        nextCursor: last === undefined ? null : cursorAt(last.created_at_ms, last.id),
      }
    },

    async stats(storeId, { sinceMs, linkId }) {
      let sold = query
        .selectFrom('purchases')
        .where('store_id', '=', storeId)
        .where('created_at_ms', '>=', sinceMs)
        .where('status', 'in', standing)
      let seen = query
        .selectFrom('link_views as v')
        .innerJoin('links as l', 'l.id', 'v.link_id')
        .where('l.store_id', '=', storeId)
        .where('v.day', '>=', new Date(sinceMs).toISOString().slice(0, 10))
      // Whoever buys from himself has sold nothing; there are few own wallets.
      const own = await ownWallets(query, storeId)
      if (own.length > 0) sold = sold.where(canonicalBuyer, 'not in', own)
      if (linkId !== undefined) {
        sold = sold.where('link_id', '=', linkId)
        seen = seen.where('v.link_id', '=', linkId)
      }
      // Decimal strings don't add up in SQL; there are few different prices.
      const prices = await sold
        .select((e) => ['price_usd', e.fn.countAll<number>().as('count')])
        .groupBy('price_usd')
        .execute()
      const { buyers } = await sold
        .select((e) => e.fn.count<number>('buyer_wallet').distinct().as('buyers'))
        .executeTakeFirstOrThrow()
      const { views } = await seen
        .select((e) => e.fn.sum<number | null>('v.count').as('views'))
        .executeTakeFirstOrThrow()
      const revenueE18 = prices.reduce(
        (sum, { price_usd, count }) => sum + parseAmount(price_usd, 18) * BigInt(count),
        0n,
      )
      return { views: views ?? 0, buyers, revenueE18 }
    },

    async addViews(views) {
      const steps = views.map(({ linkId, day, count }) =>
        compiled(
          query
            .insertInto('link_views')
            .values({ link_id: linkId, day, count })
            .onConflict((c) =>
              c.columns(['link_id', 'day']).doUpdateSet((e) => ({
                count: e('link_views.count', '+', e.ref('excluded.count')),
              })),
            ),
        ),
      )
      if (steps.length > 0) await writer.write('runAll', steps, 'visible')
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
      const rows = await query
        .selectFrom('ledger_entries')
        .selectAll()
        .where('purchase_id', '=', purchaseId)
        .orderBy('line')
        .execute()
      return rows.map((row) => ({
        purchaseId: row.purchase_id,
        account: row.account,
        network: row.network,
        asset: row.asset,
        amountAtomic: BigInt(row.amount_atomic),
        kind: row.kind as LedgerEntry['kind'],
      }))
    },

    ledgerCheck: () => checkLedger(path, database.clock.now()),
  }
}

const withKey = (query: Database['query']) =>
  query
    .selectFrom('purchases as u')
    .innerJoin('payments as p', 'p.id', 'u.payment_id')
    .selectAll('u')
    .select('p.key')

/** An EVM address is the same in either case; a Solana address is base58, where case counts. */
const canonicalBuyer = sql<string>`CASE WHEN network LIKE 'eip155:%' THEN lower(buyer_wallet) ELSE buyer_wallet END`

/** The wallets that sign in to a store, and those it is paid to, in the form of {@link canonicalBuyer}. */
async function ownWallets(query: Database['query'], storeId: string): Promise<string[]> {
  const [signedIn, store] = await Promise.all([
    query.selectFrom('store_wallets').select('address').where('store_id', '=', storeId).execute(),
    query.selectFrom('stores').select(['payout_base', 'payout_solana']).where('id', '=', storeId).execute(),
  ])
  const paidTo = store.flatMap((row) => [row.payout_base?.toLowerCase(), row.payout_solana])
  return [...signedIn.map((row) => row.address), ...paidTo].filter((address) => address != null)
}

type PurchaseRow = PurchaseTable & { readonly key: Uint8Array }

const toPurchase = (row: PurchaseRow): Purchase => ({
  id: row.id,
  paymentKey: Buffer.from(row.key).toString('hex'),
  linkId: row.link_id,
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
