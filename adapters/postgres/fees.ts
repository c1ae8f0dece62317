import { sql } from 'kysely'
import { feesAccountOf } from '../../core/domain/ledger.ts'
import type { Fees } from '../../core/ports/store/fees.ts'
import type { Row } from '../sql/row.ts'
import { feeMonthsOf } from '../sql/sales/feeRows.ts'
import type { Database } from './database.ts'
import { sumUp } from './sums.ts'

/** What stores owe, in PostgreSQL: added up as it is sold. What was paid is what stands on the store's account of fees. */
export function createFees(database: Database): Fees {
  return {
    async months(storeId) {
      await sumUp(database)
      const { rows } = await sql<Row>`
        SELECT * FROM fee_sums WHERE store_id = ${storeId} OR store_id = ${feesAccountOf(storeId)}`.execute(
        database.query,
      )
      return feeMonthsOf(storeId, rows)
    },
  }
}
