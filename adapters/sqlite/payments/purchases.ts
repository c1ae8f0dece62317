import { toEntries } from '../../../core/domain/ledger.ts'
import type { Purchases } from '../../../core/ports/store/purchases.ts'
import { packed } from '../../sql/packed.ts'
import {
  type PurchaseRow,
  pageOf,
  purchaseQueries,
  toPurchase,
  toRefund,
} from '../../sql/sales/purchaseQueries.ts'
import { compiled } from '../compiled.ts'
import type { Database } from '../database.ts'
import { reading } from '../failure.ts'
import type { ReaderThread } from '../reader/readerThread.ts'
import { transactionOf } from './bookOperations.ts'
import { checkLedger } from './ledgerCheck.ts'

/** Purchases in SQLite: reads only. */
export function createPurchases(database: Database, path: string, thread: ReaderThread): Purchases {
  const queries = purchaseQueries(database.query, packed.hex)
  const soldBy = database.reader.prepare(`SELECT 1 FROM purchases WHERE network = ? AND ${transactionOf} = ?`)

  return {
    async find(id) {
      const row = await queries.one(id).executeTakeFirst()
      return row && toPurchase(row)
    },

    async page(storeId, options) {
      const [found] = await thread.of(storeId).read(compiled(queries.page(storeId, options)))
      return pageOf(found as unknown as PurchaseRow[], options.limit)
    },

    isOwedBack: async (back) => (await queries.owedBack(back).executeTakeFirst()) !== undefined,

    async hasSold(storeId, back, sinceMs) {
      const [found] = await thread.of(storeId).read(compiled(queries.sold(storeId, back, sinceMs)))
      return found!.length > 0
    },

    async soldIn(network, transactions) {
      const isSold = (one: string) => soldBy.get(network, packed.hex(one)) !== undefined
      return new Set(reading(() => transactions.filter(isSold)))
    },

    async refundOf(purchaseId) {
      const row = await queries.refund(purchaseId).executeTakeFirst()
      return row && toRefund(purchaseId, row)
    },

    async ledger(purchaseId) {
      const moves = await queries.moves(purchaseId).execute()
      return moves.flatMap(({ entries }) => toEntries(purchaseId, entries))
    },

    ledgerCheck: (ears, { skipsJudged = false } = {}) =>
      checkLedger(path, database.clock.now(), ears, skipsJudged ? database.writer : undefined),
  }
}
