import type { DatabaseSync } from 'node:sqlite'
import { addFees, type FeeSum } from '../../sql/sales/saleRollups.ts'
import type { Row } from '../statement.ts'
import { type DayOfSales, monthOf, soldWithin, spanOf } from './daysOfSales.ts'

/**
 * Maximum number of digits in an amount that SQLite adds up. The amounts of a day then stay far below its 64 bits. This process
 * adds up longer amounts.
 */
const SAFE_DIGITS = 12

const unit = 'u.store_id, u.network, u.asset, u.symbol, u.decimals'
const added = (name: string) =>
  `CAST(sum(iif(length(${name}) <= ${SAFE_DIGITS}, CAST(${name} AS INTEGER), 0)) AS TEXT)`
const soldIn = `
  SELECT ${unit}, u.status, iif(created_at_ms >= ?3 AND created_at_ms < ?4, NULL, created_at_ms) AS other_ms, count(*) AS n,
    ${added('amount_atomic')} AS sold, ${added('fee_atomic')} AS fees, max(length(amount_atomic), length(fee_atomic)) AS digits
  FROM purchases u WHERE payment_id > ?1 AND payment_id <= ?2 GROUP BY ${unit}, u.status, other_ms`
const paidBackIn = `
  SELECT ${unit}, u.amount_atomic, u.fee_atomic
  FROM (SELECT * FROM refunds INDEXED BY refunds_time WHERE refunded_at_ms >= ? AND refunded_at_ms < ?) r
    CROSS JOIN purchases u ON u.payment_id = r.payment_id WHERE u.status = 'refunded'`

type Amounts = Omit<FeeSum, 'key' | 'asset'>

/**
 * Compares the rollups of a month, by which fees are billed, with its sales. First, the sales of all stores are added up per day.
 * If a store's rollups differ, its sales are then added up one by one at one moment.
 */
export function feesJudge(database: DatabaseSync) {
  const [sold, paidBack] = [soldIn, paidBackIn].map((sql) => database.prepare(sql))
  const stored = database.prepare('SELECT * FROM fee_rollups WHERE month = ?')
  const { due } = soldWithin(database)
  const exactly = storeJudge(database)

  return (month: string) => {
    const [fromMs, toMs] = spanOf(month)
    const rollups = new Map<string, { -readonly [Name in keyof Amounts]: Amounts[Name] }>()
    const suspects = new Map<string, readonly [store: string, month: string]>()
    const suspect = (store: unknown, of = month) => suspects.set(`${of} ${store}`, [String(store), of])
    const sumOf = (row: Row) => {
      const key = keyOf(row)
      let sum = rollups.get(key)
      if (sum === undefined) {
        sum = { sales: 0, sold: 0n, fees: 0n, refunds: 0, refunded: 0n, returned: 0n, standing: 0n }
        rollups.set(key, sum)
      }
      return sum
    }
    return {
      add({ from, to }: DayOfSales): void {
        for (const row of sold!.iterate(from, to, fromMs, toMs)) {
          const { store_id: store, status, other_ms: otherMs } = row
          if (otherMs !== null) suspect(store, monthOf(Number(otherMs)))
          else if (Number(row['digits']) > SAFE_DIGITS) suspect(store)
          else if (status !== 'reorged') {
            const [sum, amount] = [sumOf(row), BigInt(String(row['sold']))]
            sum.sales += Number(row['n'])
            sum.sold += amount
            sum.fees += BigInt(String(row['fees']))
            if (status !== 'refunded') sum.standing += amount
          }
        }
      },
      /**
       * The caller reads all sales in one transaction.
       * @returns names of rollups that differ
       */
      judge(): string[] {
        for (const row of paidBack!.iterate(fromMs, toMs)) {
          const sum = sumOf(row)
          sum.refunds++
          sum.refunded += BigInt(String(row['amount_atomic']))
          sum.returned += BigInt(String(row['fee_atomic']))
        }
        for (const row of stored.iterate(month)) {
          const key = keyOf({ ...row, asset: row['unit']! })
          const sum = rollups.get(key)
          if (sum === undefined || !matchesFees(row, sum)) suspect(row['store_id'])
          rollups.delete(key)
        }
        for (const key of rollups.keys()) suspect((JSON.parse(key) as string[])[0])
        for (const store of due(fromMs, toMs)) suspect(store)
        return [...suspects.values()].flatMap(([store, of]) => exactly(store, of))
      },
    }
  }
}

/** The key of a sum. An EVM token's address is the same in upper and lower case. */
function keyOf({ store_id: store, network, asset, symbol, decimals }: Row): string {
  const unit = String(network).startsWith('eip155:') ? String(asset).toLowerCase() : asset
  return JSON.stringify([store, network, unit, symbol, Number(decimals)])
}

/** Compares the rollups of one store in one month with its sales one by one. */
function storeJudge(database: DatabaseSync): (storeId: string, month: string) => string[] {
  const { sold, refunded } = soldWithin(database)
  const stored = database.prepare('SELECT * FROM fee_rollups WHERE store_id = ? AND month = ?')

  return (storeId, month) => {
    const [fromMs, toMs] = spanOf(month)
    const fees = new Map<string, FeeSum>()
    for (const row of sold(storeId, fromMs, toMs)) if (row['became'] !== null) addFees(fees, row)
    for (const row of refunded(storeId, fromMs, toMs)) {
      // A refund in this month may be for a sale in another month.
      const isOlder = Number(row['created_at_ms']) < fromMs || Number(row['created_at_ms']) >= toMs
      if (isOlder && row['became'] === 'refunded') addFees(fees, row)
    }
    const columns = ['store_id', 'month', 'network', 'unit', 'symbol', 'decimals']
    const left = new Map(
      stored.all(storeId, month).map((row) => [JSON.stringify(columns.map((name) => row[name])), row]),
    )
    const found = new Set<string>()
    for (const sum of fees.values()) {
      // This function reads only some refunds of other months, so it does not compare their rollups.
      if (sum.key[1] !== month) continue
      const key = JSON.stringify(sum.key)
      const row = left.get(key)
      if (row === undefined ? sum.sales > 0 || sum.refunds > 0 : !matchesFees(row, sum))
        found.add(`the fees of ${storeId} in ${month} are not summed up to those of its sales`)
      left.delete(key)
    }
    if (left.size > 0)
      found.add(`the fees of ${storeId} in ${month} are summed up of sales that are not there`)
    return [...found]
  }
}

const matchesFees = (stored: Row, sum: Amounts): boolean =>
  (['sales', 'sold', 'fees', 'refunds', 'refunded', 'returned', 'standing'] as const).every(
    (name) => String(sum[name]) === String(stored[name]),
  )
