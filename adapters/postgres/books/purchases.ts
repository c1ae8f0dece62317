import { toEntries } from '../../../core/domain/ledger.ts'
import type { Purchases } from '../../../core/ports/store/purchases.ts'
import { pageOf, purchaseQueries, toPurchase, toRefund } from '../../sql/sales/purchaseQueries.ts'
import { ask } from '../ask.ts'
import type { Database } from '../database.ts'
import { checkLedger } from './ledgerCheck.ts'

// The words of the index purchases_transfer, so that it is used.
const transactionOf = `(CASE WHEN network LIKE 'eip155:%' THEN lower(tx_hash) ELSE tx_hash END)`
const soldIn = `SELECT DISTINCT ${transactionOf} AS tx FROM purchases WHERE network = $1 AND ${transactionOf} = ANY ($2::text[])`

/** Purchases in PostgreSQL: reads only. */
export function createPurchases({ pool, query, clock }: Database): Purchases {
  const queries = purchaseQueries(query)

  return {
    async find(id) {
      const row = await queries.one(id).executeTakeFirst()
      return row && toPurchase(row)
    },

    page: async (storeId, options) => pageOf(await queries.page(storeId, options).execute(), options.limit),

    isOwedBack: async (back) => (await queries.owedBack(back).executeTakeFirst()) !== undefined,

    hasSold: async (storeId, back, sinceMs) =>
      (await queries.sold(storeId, back, sinceMs).executeTakeFirst()) !== undefined,

    async soldIn(network, transactions) {
      const rows = await ask(pool, soldIn, [network, transactions])
      return new Set(rows.map(({ tx }) => String(tx)))
    },

    async refundOf(purchaseId) {
      const row = await queries.refund(purchaseId).executeTakeFirst()
      return row && toRefund(purchaseId, row)
    },

    async ledger(purchaseId) {
      const moves = await queries.moves(purchaseId).execute()
      return moves.flatMap(({ entries }) => toEntries(purchaseId, entries))
    },

    ledgerCheck: (ears) => checkLedger(pool, clock.now(), ears),
  }
}
