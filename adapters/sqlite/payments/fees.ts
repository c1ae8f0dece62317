import { feesAccountOf } from '../../../core/domain/ledger.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import { type FeeMonth, type Fees, inOrder } from '../../../core/ports/fees.ts'
import type { Database } from '../database.ts'
import { sumUp } from '../figures.ts'
import type { ReaderThread } from '../readerThread.ts'
import type { Row } from '../statement.ts'

/** What stores owe, in SQLite: added up as it is sold (sums/). What was paid is what stands on the store's account of fees. */
export function createFees(database: Database, thread: ReaderThread): Fees {
  return {
    async months(storeId) {
      await sumUp(database)
      const [rows] = await thread.of(storeId).read({
        sql: 'SELECT * FROM fee_sums WHERE store_id = ? OR store_id = ?',
        parameters: [storeId, feesAccountOf(storeId)],
      })
      return inOrder(
        rows!.flatMap((row) => {
          if (row['store_id'] === storeId) return [toMonth(row)]
          return row['standing'] === '0'
            ? []
            : [{ ...unitOf(row), ...none, paidAtomic: atomic(row, 'standing') }]
        }),
      )
    },
  }
}

const atomic = (row: Row, name: string): bigint => BigInt(String(row[name]))

const unitOf = (row: Row) => ({
  month: String(row['month']),
  network: String(row['network']) as NetworkId,
  asset: String(row['asset']),
  symbol: String(row['symbol']),
  decimals: Number(row['decimals']),
})

const none = {
  ...{ sales: 0, salesAtomic: 0n, feesAtomic: 0n },
  ...{ refunds: 0, refundedAtomic: 0n, returnedAtomic: 0n, paidAtomic: 0n },
}

const toMonth = (row: Row): FeeMonth => ({
  ...unitOf(row),
  sales: Number(row['sales']),
  salesAtomic: atomic(row, 'sold'),
  feesAtomic: atomic(row, 'fees'),
  refunds: Number(row['refunds']),
  refundedAtomic: atomic(row, 'refunded'),
  returnedAtomic: atomic(row, 'returned'),
  paidAtomic: 0n,
})
