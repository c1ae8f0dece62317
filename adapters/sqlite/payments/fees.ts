import { feesAccountOf } from '../../../core/domain/ledger.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import { type FeeMonth, type Fees, inOrder } from '../../../core/ports/fees.ts'
import type { ReaderThread } from '../readerThread.ts'
import type { Row } from '../statement.ts'

// An EVM address is the same in either case; a token's decimals and symbol may be configured anew.
const kept = `u.network, max(u.asset) AS asset, u.symbol, u.decimals`
const unit = `u.network, CASE WHEN u.network LIKE 'eip155:%' THEN lower(u.asset) ELSE u.asset END, u.symbol, u.decimals`
const monthOf = (column: string) => `strftime('%Y-%m', ${column} / 1000, 'unixepoch')`

const sold = `
  SELECT ${monthOf('u.created_at_ms')} AS month, ${kept}, count(*) AS sales, sum_atomic(u.amount_atomic) AS sold,
    sum_atomic(u.fee_atomic) AS fees, 0 AS refunds, '0' AS refunded, '0' AS returned,
    '0' AS paid
  FROM purchases u WHERE u.store_id = ? AND u.status <> 'reorged' GROUP BY month, ${unit}`

const refunded = `
  SELECT ${monthOf('r.refunded_at_ms')} AS month, ${kept}, 0 AS sales, '0' AS sold, '0' AS fees, count(*) AS refunds,
    sum_atomic(u.amount_atomic) AS refunded, sum_atomic(u.fee_atomic) AS returned, '0' AS paid
  FROM purchases u JOIN refunds r ON r.payment_id = u.payment_id
  WHERE u.store_id = ? AND u.status = 'refunded' GROUP BY month, ${unit}`

const paid = `
  SELECT ${monthOf('u.created_at_ms')} AS month, ${kept}, 0 AS sales, '0' AS sold, '0' AS fees, 0 AS refunds,
    '0' AS refunded, '0' AS returned, sum_atomic(u.amount_atomic) AS paid
  FROM purchases u WHERE u.store_id = ? AND u.status NOT IN ('reorged', 'refunded') GROUP BY month, ${unit}`

/** What stores owe, in SQLite: added up by a thread that only reads. */
export function createFees(thread: ReaderThread): Fees {
  /** Who asks at once shares one look: it reads all that a store has sold. */
  const asked = new Map<string, Promise<FeeMonth[]>>()

  async function read(storeId: string): Promise<FeeMonth[]> {
    const parameters = [storeId]
    const found = await thread.read(
      { sql: sold, parameters },
      { sql: refunded, parameters },
      { sql: paid, parameters: [feesAccountOf(storeId)] },
    )
    return inOrder(found.flat().map(toMonth))
  }

  return {
    months(storeId) {
      let months = asked.get(storeId)
      if (months === undefined) {
        months = read(storeId).finally(() => asked.delete(storeId))
        asked.set(storeId, months)
      }
      return months
    },
  }
}

const toMonth = (row: Row): FeeMonth => ({
  month: String(row['month']),
  network: String(row['network']) as NetworkId,
  asset: String(row['asset']),
  symbol: String(row['symbol']),
  decimals: Number(row['decimals']),
  sales: Number(row['sales']),
  salesAtomic: BigInt(String(row['sold'])),
  feesAtomic: BigInt(String(row['fees'])),
  refunds: Number(row['refunds']),
  refundedAtomic: BigInt(String(row['refunded'])),
  returnedAtomic: BigInt(String(row['returned'])),
  paidAtomic: BigInt(String(row['paid'])),
})
