import type { DatabaseSync } from 'node:sqlite'
import { addFees, type FeeSum } from '../../sql/sales/saleSums.ts'
import type { Row } from '../statement.ts'
import { type DayOfSales, monthOf, spanOf } from './daysOfSales.ts'
import { soldWithin } from './soldWithin.ts'

/** Amounts of so many digits are added up by SQLite: those of a day stay far below its 64 bits. Of longer ones it adds none. */
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
 * Compares the sums of a month, by which fees are billed, with its sales: added up a day at a time and whosever they are, and then, of
 * a store in whose sums something is different, one by one as they stand at one moment.
 */
export function feesJudge(database: DatabaseSync) {
  const [sold, paidBack] = [soldIn, paidBackIn].map((sql) => database.prepare(sql))
  const kept = database.prepare('SELECT * FROM fee_sums WHERE month = ?')
  const { due } = soldWithin(database)
  const exactly = storeJudge(database)

  return (month: string) => {
    const [fromMs, toMs] = spanOf(month)
    const sums = new Map<string, { -readonly [Name in keyof Amounts]: Amounts[Name] }>()
    const suspects = new Map<string, readonly [store: string, month: string]>()
    const suspect = (store: unknown, of = month) => suspects.set(`${of} ${store}`, [String(store), of])
    const sumOf = (row: Row) => {
      const key = keyOf(row)
      let sum = sums.get(key)
      if (sum === undefined) {
        sum = { sales: 0, sold: 0n, fees: 0n, refunds: 0, refunded: 0n, returned: 0n, standing: 0n }
        sums.set(key, sum)
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
      /** To be asked as everything stands at one moment. @returns names of sums that say something else */
      judge(): string[] {
        for (const row of paidBack!.iterate(fromMs, toMs)) {
          const sum = sumOf(row)
          sum.refunds++
          sum.refunded += BigInt(String(row['amount_atomic']))
          sum.returned += BigInt(String(row['fee_atomic']))
        }
        for (const row of kept.iterate(month)) {
          const key = keyOf({ ...row, asset: row['unit']! })
          const sum = sums.get(key)
          if (sum === undefined || !saysFees(row, sum)) suspect(row['store_id'])
          sums.delete(key)
        }
        for (const key of sums.keys()) suspect((JSON.parse(key) as string[])[0])
        for (const store of due(fromMs, toMs)) suspect(store)
        return [...suspects.values()].flatMap(([store, of]) => exactly(store, of))
      },
    }
  }
}

/** An EVM token's address is the same in either case. */
function keyOf({ store_id: store, network, asset, symbol, decimals }: Row): string {
  const unit = String(network).startsWith('eip155:') ? String(asset).toLowerCase() : asset
  return JSON.stringify([store, network, unit, symbol, Number(decimals)])
}

/** The sums of one store in one month, against its sales one by one. */
function storeJudge(database: DatabaseSync): (storeId: string, month: string) => string[] {
  const { sold, paidBack } = soldWithin(database)
  const kept = database.prepare('SELECT * FROM fee_sums WHERE store_id = ? AND month = ?')

  return (storeId, month) => {
    const [fromMs, toMs] = spanOf(month)
    const fees = new Map<string, FeeSum>()
    for (const row of sold(storeId, fromMs, toMs)) if (row['became'] !== null) addFees(fees, row)
    for (const row of paidBack(storeId, fromMs, toMs)) {
      // What was sold in another month is paid back in this one.
      const isOlder = Number(row['created_at_ms']) < fromMs || Number(row['created_at_ms']) >= toMs
      if (isOlder && row['became'] === 'refunded') addFees(fees, row)
    }
    const columns = ['store_id', 'month', 'network', 'unit', 'symbol', 'decimals']
    const left = new Map(
      kept.all(storeId, month).map((row) => [JSON.stringify(columns.map((name) => row[name])), row]),
    )
    const found = new Set<string>()
    for (const sum of fees.values()) {
      // Of refunds in other months only a part is read here.
      if (sum.key[1] !== month) continue
      const key = JSON.stringify(sum.key)
      const row = left.get(key)
      if (row === undefined ? sum.sales > 0 || sum.refunds > 0 : !saysFees(row, sum))
        found.add(`the fees of ${storeId} in ${month} are not summed up to those of its sales`)
      left.delete(key)
    }
    if (left.size > 0)
      found.add(`the fees of ${storeId} in ${month} are summed up of sales that are not there`)
    return [...found]
  }
}

const saysFees = (kept: Row, sum: Amounts): boolean =>
  (['sales', 'sold', 'fees', 'refunds', 'refunded', 'returned', 'standing'] as const).every(
    (name) => String(sum[name]) === String(kept[name]),
  )
