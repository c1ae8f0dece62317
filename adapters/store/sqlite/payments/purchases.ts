import { feesAccountOf, toEntries } from '../../../../core/domain/ledger.ts'
import type { Fees } from '../../../../core/ports/store/fees.ts'
import type { Purchases } from '../../../../core/ports/store/purchases.ts'
import { feeMonthsOf } from '../../sql/sales/feeRows.ts'
import { packed } from '../../sql/sales/paymentRows.ts'
import {
  type PurchaseRow,
  pageOf,
  purchaseQueries,
  toLostRefund,
  toPurchase,
  toRefund,
} from '../../sql/sales/purchaseQueries.ts'
import type { Database } from '../connect.ts'
import { reading } from '../failure.ts'
import type { ReaderThread } from '../reader/readerThread.ts'
import { compiled } from '../statement.ts'
import { sumUp } from '../stats.ts'
import { checkLedger } from './ledgerCheck.ts'
import { transactionOf } from './ledgerOperations.ts'

/** Reads purchases in SQLite. */
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

    givingAccess: async (...asked) => (await queries.givingAccess(...asked).executeTakeFirst())?.id,

    async refundOf(purchaseId) {
      const row = await queries.refund(purchaseId).executeTakeFirst()
      return row && toRefund(purchaseId, row)
    },

    async lostRefundsOf(purchaseId) {
      const rows = await queries.lostRefunds(purchaseId).execute()
      return rows.map((row) => toLostRefund(purchaseId, row))
    },

    async ledger(purchaseId) {
      const moves = await queries.moves(purchaseId).execute()
      return moves.flatMap(({ entries }) => toEntries(purchaseId, entries))
    },

    ledgerCheck: (ears, { skipsCheckedDays = false } = {}) =>
      checkLedger(path, database.clock.now(), ears, skipsCheckedDays ? database.writer : undefined),
  }
}

/** The fees that stores owe, in SQLite. The rollups add up the owed fees. The paid fees come from the store's fee account. */
export function createFees(database: Database, thread: ReaderThread): Fees {
  return {
    async months(storeId) {
      await sumUp(database)
      const [rows, claims] = await thread.of(storeId).read(
        {
          sql: 'SELECT * FROM fee_rollups WHERE store_id = ? OR store_id = ?',
          parameters: [storeId, feesAccountOf(storeId)],
        },
        { sql: 'SELECT * FROM channel_fees WHERE store_id = ?', parameters: [storeId] },
      )
      return feeMonthsOf(storeId, rows!, claims!)
    },
  }
}
