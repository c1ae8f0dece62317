import { toEntries } from '../../../core/domain/ledger.ts'
import type { Purchases } from '../../../core/ports/store/purchases.ts'
import { pageOf, purchaseQueries, toPurchase, toRefund } from '../../sql/sales/purchaseQueries.ts'
import type { Database } from '../database.ts'
import { checkLedger } from './ledgerCheck.ts'

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
