import type { DatabaseSync } from 'node:sqlite'
import { parseAmount } from '../../../../core/domain/money.ts'
import { DAY_MS, HOUR_MS } from '../../../../core/ports/store/stats.ts'
import { changedCounts, pairsOf } from '../../sql/sales/buyerCounts.ts'
import { addStats, type SalesSum, walletOf } from '../../sql/sales/saleRollups.ts'
import type { Row } from '../statement.ts'
import { type DayOfSales, soldWithin } from './daysOfSales.ts'

/** The sums of one scope, which are added up while all sales of a day are read once. */
interface Quick {
  calls: number
  revenueE18: bigint
  refunds: number
  refundedE18: bigint
  readonly buyers: number[]
}

const wallet = `CASE WHEN u.network LIKE 'eip155:%' THEN lower(u.buyer_wallet) ELSE u.buyer_wallet END`
const standing = `SELECT u.store_id, u.link_id, u.created_at_ms, u.price_usd, coalesce(b.number, -1)
  FROM purchases u LEFT JOIN own_sales o ON o.payment_id = u.payment_id LEFT JOIN buyers b ON b.wallet = ${wallet}
  WHERE u.payment_id > ? AND u.payment_id <= ? AND (u.status = 'settled' OR u.status = 'delivered') AND o.payment_id IS NULL`
const paidBack = `SELECT u.store_id, u.link_id, r.refunded_at_ms, u.price_usd
  FROM (SELECT * FROM refunds INDEXED BY refunds_time WHERE refunded_at_ms >= ? AND refunded_at_ms < ?) r
    CROSS JOIN purchases u ON u.payment_id = r.payment_id LEFT JOIN own_sales o ON o.payment_id = u.payment_id
  WHERE o.payment_id IS NULL`
const storedIn = `SELECT unit, at, scope, calls, revenue_e18, refunds, refunded_e18, buyers FROM sales_rollups
  WHERE unit = ? AND at >= ? AND at < ?`
const ofStore = `scope = ?1 OR scope > ?1 || '/' AND scope < ?1 || '0'`

/** Maximum number of prices whose parsed value is cached. There are few different prices. */
const PRICES_HELD = 10_000

/**
 * Compares the rollups of a day with its sales. First, the sales of all stores are read in order and added up. A store is then
 * compared on its own if its rollups differ, if it has pending notes, or if a sale has another day than its payment. The caller
 * reads a day in one transaction.
 *
 * @returns names of rollups that differ
 */
export function salesJudge(database: DatabaseSync): (day: DayOfSales) => string[] {
  const inOrder = arrays(database, standing)
  const refunded = arrays(database, paidBack)
  const stored = arrays(database, storedIn)
  const { due } = soldWithin(database)
  const exactly = storeJudge(database)
  const prices = new Map<string, bigint>()

  function priceOf(text: string): bigint {
    let price = prices.get(text)
    if (price === undefined) {
      if (prices.size >= PRICES_HELD) prices.clear()
      price = parseAmount(text, 18)
      prices.set(text, price)
    }
    return price
  }

  return ({ day, from, to }) => {
    const rollups = new Map<string, Quick>()
    const suspects = new Map<string, readonly [store: string, day: number]>()
    const suspect = (store: string, on: number) => suspects.set(`${on} ${store}`, [store, on])
    const sumOf = (key: string): Quick => {
      let sum = rollups.get(key)
      if (sum === undefined) {
        sum = { calls: 0, revenueE18: 0n, refunds: 0, refundedE18: 0n, buyers: [] }
        rollups.set(key, sum)
      }
      return sum
    }
    const rollupsOf = (store: string, link: string, ms: number): Quick[] => [
      sumOf(keyOf('day', day, store)),
      sumOf(keyOf('hour', Math.floor(ms / HOUR_MS), store)),
      ...(link === '' ? [] : [sumOf(keyOf('day', day, `${store}/${link}`))]),
    ]
    for (const row of inOrder(from, to)) {
      const [store, link, ms, price, buyer] = row as [string, string, number, string, number]
      const on = Math.floor(ms / DAY_MS)
      if (on !== day) suspect(store, on)
      else
        for (const sum of rollupsOf(store, link, ms)) {
          sum.calls++
          sum.revenueE18 += priceOf(price)
          sum.buyers.push(buyer)
        }
    }
    for (const row of refunded(day * DAY_MS, (day + 1) * DAY_MS)) {
      const [store, link, ms, price] = row as [string, string, number, string]
      for (const sum of rollupsOf(store, link, ms)) {
        sum.refunds++
        sum.refundedE18 += priceOf(price)
      }
    }
    for (const unit of ['day', 'hour'] as const) {
      const first = unit === 'day' ? day : day * 24
      for (const row of stored(unit, first, unit === 'day' ? day + 1 : first + 24)) {
        const [, at, scope] = row as [string, number, string]
        const key = keyOf(unit, at, scope)
        if (!isSame(row, rollups.get(key))) suspect(scope.split('/')[0]!, day)
        rollups.delete(key)
      }
    }
    for (const key of rollups.keys()) suspect(key.slice(key.indexOf(' ') + 1).split('/')[0]!, day)
    for (const store of due(day * DAY_MS, (day + 1) * DAY_MS)) suspect(store, day)
    return [...suspects.values()].flatMap(([store, on]) => exactly(store, on))
  }
}

const keyOf = (unit: SalesSum['unit'], at: number, scope: string): string => `${unit}${at} ${scope}`

const arrays = (database: DatabaseSync, sql: string) => {
  const statement = database.prepare(sql)
  statement.setReturnArrays(true)
  return (...parameters: (string | number)[]) =>
    statement.iterate(...parameters) as unknown as Iterable<readonly unknown[]>
}

function isSame(row: readonly unknown[], sum: Quick | undefined): boolean {
  const [, , , calls, revenue, refunds, refundedE18, buyers] = row
  if (sum === undefined || calls !== sum.calls || refunds !== sum.refunds) return false
  if (revenue !== `${sum.revenueE18}` || refundedE18 !== `${sum.refundedE18}`) return false
  const pairs = pairsOf(buyers as Uint8Array | null)
  const counted = sum.buyers.sort((a, b) => a - b)
  let at = 0
  for (let i = 0; i < pairs.length; i += 2) {
    const end = at + pairs[i + 1]!
    if (end <= at || counted[at] !== pairs[i] || counted[end - 1] !== pairs[i] || counted[end] === pairs[i])
      return false
    at = end
  }
  return at === counted.length
}

/** Compares the rollups of one store on one day, and of its links and hours, with its sales one by one. */
function storeJudge(database: DatabaseSync): (storeId: string, day: number) => string[] {
  const { sold, paidBack } = soldWithin(database)
  const numbers = database.prepare('SELECT number FROM buyers WHERE wallet = ?')
  const numberOf = (row: Row) => Number(numbers.get(walletOf(row))?.['number'] ?? -1)
  const stored = database.prepare(`SELECT * FROM sales_rollups WHERE unit = 'day' AND at = ?2 AND (${ofStore})
    UNION ALL SELECT * FROM sales_rollups WHERE unit = 'hour' AND at >= ?2 * 24 AND at < (?2 + 1) * 24 AND scope = ?1`)

  return (storeId, day) => {
    const [fromMs, toMs] = [day * DAY_MS, (day + 1) * DAY_MS]
    const stats = new Map<string, SalesSum>()
    const add = (row: Row) => addStats(stats, row, row['own'] === null ? numberOf : undefined)
    for (const row of sold(storeId, fromMs, toMs)) if (row['became'] !== null) add(row)
    for (const row of paidBack(storeId, fromMs, toMs)) add({ ...row, became: null })
    const found: string[] = []
    const left = new Map(
      stored.all(storeId, day).map((row) => [`${row['unit']} ${row['at']} ${row['scope']}`, row]),
    )
    for (const { ...sum } of stats.values()) {
      // This function reads only some sales and refunds of other days, so it does not compare their rollups.
      if (Math.floor((sum.at * (sum.unit === 'day' ? DAY_MS : HOUR_MS)) / DAY_MS) !== day) continue
      const key = `${sum.unit} ${sum.at} ${sum.scope}`
      if (!matchesSales(left.get(key), sum))
        found.push(`the sums of ${sum.scope} on ${dayOf(sum)} are not those of its sales`)
      left.delete(key)
    }
    for (const row of left.values()) {
      const { scope, unit, at } = row as unknown as SalesSum
      found.push(`the sums of ${scope} on ${dayOf({ unit, at })} are of sales that are not there`)
    }
    return found
  }
}

function matchesSales(
  stored: Row | undefined,
  { calls, revenueE18, refunds, refundedE18, buyers }: SalesSum,
): boolean {
  if (stored === undefined) return calls === 0 && refunds === 0
  const columns = [calls, revenueE18, refunds, refundedE18]
  const storedValues = ['calls', 'revenue_e18', 'refunds', 'refunded_e18'].map((name) => String(stored[name]))
  const bytes = [(stored['buyers'] as Uint8Array | null) ?? [], changedCounts(null, buyers) ?? []]
  return (
    columns.join() === storedValues.join() &&
    Buffer.compare(Buffer.from(bytes[0]!), Buffer.from(bytes[1]!)) === 0
  )
}

const dayOf = ({ unit, at }: Pick<SalesSum, 'unit' | 'at'>): string =>
  new Date(at * (unit === 'day' ? DAY_MS : HOUR_MS)).toISOString().slice(0, unit === 'day' ? 10 : 13)
