import type { NetworkId } from '../../../../core/domain/network.ts'
import { type FeeMonth, inOrder } from '../../../../core/ports/store/fees.ts'
import type { Row } from '../rows.ts'

/**
 * The months of a store, from the rollups of the store and of its fee account. The rollups of the fee account contain the paid
 * fees. Claims of payment channels have rows of their own.
 */
export const feeMonthsOf = (storeId: string, rows: readonly Row[], channelRows: readonly Row[]): FeeMonth[] =>
  inOrder([
    ...rows.flatMap((row) => {
      if (row['store_id'] === storeId) return [toMonth(row)]
      return row['standing'] === '0' ? [] : [{ ...unitOf(row), ...none, paidAtomic: atomic(row, 'standing') }]
    }),
    ...channelRows.map((row) => ({
      ...unitOf(row),
      ...none,
      sales: Number(row['claims']),
      salesAtomic: atomic(row, 'claimed'),
      feesAtomic: atomic(row, 'fees'),
    })),
  ])

const atomic = (row: Row, name: string): bigint => BigInt(String(row[name]))

const unitOf = (row: Row) => ({
  month: String(row['month']),
  network: String(row['network']) as NetworkId,
  asset: String(row['asset']),
  symbol: String(row['symbol']),
  decimals: Number(row['decimals']),
})

const none = {
  sales: 0,
  salesAtomic: 0n,
  feesAtomic: 0n,
  refunds: 0,
  refundedAtomic: 0n,
  returnedAtomic: 0n,
  paidAtomic: 0n,
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
