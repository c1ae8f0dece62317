import { feesAccountOf } from '../../../core/domain/ledger.ts'
import type { Fees } from '../../../core/ports/store/fees.ts'
import { feeMonthsOf } from '../../sql/sales/feeRows.ts'
import type { Database } from '../database.ts'
import { sumUp } from '../figures.ts'
import type { ReaderThread } from '../reader/readerThread.ts'

/** What stores owe, in SQLite: added up as it is sold (sums/). What was paid is what stands on the store's account of fees. */
export function createFees(database: Database, thread: ReaderThread): Fees {
  return {
    async months(storeId) {
      await sumUp(database)
      const [rows] = await thread.of(storeId).read({
        sql: 'SELECT * FROM fee_sums WHERE store_id = ? OR store_id = ?',
        parameters: [storeId, feesAccountOf(storeId)],
      })
      return feeMonthsOf(storeId, rows!)
    },
  }
}
