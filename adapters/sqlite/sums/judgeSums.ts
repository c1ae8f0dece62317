import type { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import type { Row } from '../statement.ts'
import { changedCounts } from './buyerCounts.ts'
import { addFees, addFigures, type FeeSum, type SalesSum, walletOf } from './sumOperations.ts'

/** What the sums have of a purchase: what it was before the first note that waits. */
const sales = (from: string) => `
  SELECT u.*, r.refunded_at_ms, o.payment_id AS own, NULL AS was,
    CASE WHEN d.id IS NULL THEN u.status ELSE d.was END AS became,
    r.payment_id IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM sums_due w WHERE w.payment_id = u.payment_id AND w.became IS NULL) AS is_back
  FROM ${from} LEFT JOIN own_sales o ON o.payment_id = u.payment_id
    LEFT JOIN (SELECT payment_id, min(id) AS id, was FROM sums_due WHERE became IS NOT NULL GROUP BY payment_id) d
      ON d.payment_id = u.payment_id
  WHERE u.store_id = ?1`
const soldIn = `${sales('purchases u LEFT JOIN refunds r ON r.payment_id = u.payment_id')}
  AND u.created_at_ms >= ?2 AND u.created_at_ms < ?3`
const paidBackIn =
  sales(`(SELECT * FROM refunds INDEXED BY refunds_time WHERE refunded_at_ms >= ?2 AND refunded_at_ms < ?3) r
  CROSS JOIN purchases u ON u.payment_id = r.payment_id`)

/** Sums of a time in which nothing was sold. */
const strays = `
  SELECT unit, at, scope FROM (SELECT *, at * iif(unit = 'day', 86400000, 3600000) AS from_ms,
      (at + 1) * iif(unit = 'day', 86400000, 3600000) - 1 AS to_ms FROM sales_sums WHERE unit = ?1 AND at >= ?2 AND at < ?3)
  WHERE (calls <> 0 OR refunds = 0) AND CASE instr(scope, '/')
    WHEN 0 THEN NOT EXISTS (SELECT 1 FROM purchases WHERE store_id = scope AND created_at_ms BETWEEN from_ms AND to_ms)
    ELSE NOT EXISTS (SELECT 1 FROM purchases
      WHERE link_id = substr(scope, instr(scope, '/') + 1) AND created_at_ms BETWEEN from_ms AND to_ms) END`
const strayFees = `
  SELECT store_id, month FROM fee_sums f WHERE (sales <> 0 OR refunds = 0) AND NOT EXISTS (SELECT 1 FROM purchases p
    WHERE p.store_id = f.store_id AND p.created_at_ms >= unixepoch(f.month || '-01') * 1000
      AND p.created_at_ms < unixepoch(f.month || '-01', '+1 month') * 1000)`

/** The days on which a store's views are not those of its links. */
const counted = `SELECT v.day AS at, sum(v.views), sum(v.challenges)
  FROM links l CROSS JOIN link_days v ON v.link_id = l.id WHERE l.store_id = ?1
  GROUP BY 1 HAVING sum(v.views) <> 0 OR sum(v.challenges) <> 0`
const kept =
  'SELECT day, views, challenges FROM store_days WHERE store_id = ?1 AND (views <> 0 OR challenges <> 0)'
const traffic = `SELECT at FROM (SELECT * FROM (${counted}) EXCEPT ${kept})
  UNION SELECT day FROM (SELECT * FROM (${kept}) EXCEPT ${counted})`
const nextSeen = `SELECT min(id) AS id FROM (SELECT min(id) AS id FROM stores WHERE id > ?1
  UNION ALL SELECT min(store_id) FROM store_days WHERE store_id > ?1)`

/**
 * Adds up everything anew and names the sums that say something else. A store's month, and a store's views, are looked at as they
 * stand at one moment; then others get their turn.
 */
export async function judgeSums(
  database: DatabaseSync,
  nowMs: number,
  say: (finding: string) => void,
): Promise<void> {
  const nextStore = database.prepare('SELECT min(store_id) AS id FROM purchases WHERE store_id > ?')
  const span = database.prepare(
    'SELECT min(created_at_ms) AS first, max(created_at_ms) AS last FROM purchases WHERE store_id = ?',
  )
  const judgeMonth = monthJudge(database, say)
  for (let id = nextStore.get('')!['id']; id !== null; id = nextStore.get(id!)!['id']) {
    const { first, last } = span.get(id!)!
    // What was paid back since, too.
    const end = Math.max(nowMs, Number(last))
    for (let from = monthAt(Number(first), 0); from <= end; from = monthAt(from, 1)) {
      inOneLook(database, () => judgeMonth(String(id), from, monthAt(from, 1)))
      await setImmediate()
    }
  }
  const stray = database.prepare(strays)
  const times = database.prepare('SELECT min(at) AS first, max(at) AS last FROM sales_sums WHERE unit = ?')
  for (const [unit, step] of [
    ['day', 1],
    ['hour', 24],
  ] as const) {
    const { first, last } = times.get(unit)!
    for (let at = Number(first); first !== null && at <= Number(last); at += step) {
      for (const row of stray.all(unit, at, at + step))
        say(
          `the sums of ${row['scope']} on ${dayOf(unit, Number(row['at']))} are of sales that are not there`,
        )
      await setImmediate()
    }
  }
  for (const { store_id: store, month } of database.prepare(strayFees).all())
    say(`the fees of ${store} in ${month} are summed up of sales that are not there`)
  const [seen, views] = [database.prepare(nextSeen), database.prepare(traffic)]
  for (let id = seen.get('')!['id']; id !== null; id = seen.get(id!)!['id']) {
    for (const { at } of views.all(id!))
      say(`the views of ${id} on ${dayOf('day', Number(at))} are not those of its links`)
    await setImmediate()
  }
}

/** The first moment of a month, so many months later. */
const monthAt = (ms: number, later: number): number =>
  Date.UTC(new Date(ms).getUTCFullYear(), new Date(ms).getUTCMonth() + later)

function inOneLook(database: DatabaseSync, look: () => void): void {
  database.exec('BEGIN')
  try {
    look()
  } finally {
    database.exec('COMMIT')
  }
}

function monthJudge(database: DatabaseSync, say: (finding: string) => void) {
  const [sold, paidBack] = [database.prepare(soldIn), database.prepare(paidBackIn)]
  const numbers = database.prepare('SELECT number FROM buyers WHERE wallet = ?')
  const numberOf = (row: Row) => Number(numbers.get(walletOf(row))?.['number'] ?? -1)
  const sumAt = database.prepare('SELECT * FROM sales_sums WHERE unit = ? AND at = ? AND scope = ?')
  const feesAt = database.prepare(`SELECT * FROM fee_sums
    WHERE store_id = ? AND month = ? AND network = ? AND unit = ? AND symbol = ? AND decimals = ?`)

  return (storeId: string, fromMs: number, toMs: number): void => {
    const [figures, fees] = [new Map<string, SalesSum>(), new Map<string, FeeSum>()]
    const add = (row: Row) => {
      addFigures(figures, row, row['own'] === null ? numberOf : undefined)
      addFees(fees, row)
    }
    for (const row of sold.iterate(storeId, fromMs, toMs)) if (row['became'] !== null) add(row)
    for (const row of paidBack.iterate(storeId, fromMs, toMs)) {
      if (Number(row['is_back']) === 1) add({ ...row, became: null })
      // What was sold in another month is paid back in this one.
      const isOlder = Number(row['created_at_ms']) < fromMs || Number(row['created_at_ms']) >= toMs
      if (isOlder && row['became'] === 'refunded') addFees(fees, row)
    }
    const month = new Date(fromMs).toISOString().slice(0, 7)
    for (const sum of figures.values()) {
      const { unit, at, scope } = sum
      if (!saysSales(sumAt.get(unit, at, scope), sum))
        say(`the sums of ${scope} on ${dayOf(unit, at)} are not those of its sales`)
    }
    for (const sum of fees.values()) {
      // Of refunds in other months only a part is read here.
      if (sum.key[1] === month && !saysFees(feesAt.get(...sum.key), sum))
        say(`the fees of ${storeId} in ${month} are not summed up to those of its sales`)
    }
  }
}

function saysSales(
  kept: Row | undefined,
  { calls, revenueE18, refunds, refundedE18, buyers }: SalesSum,
): boolean {
  if (kept === undefined) return calls === 0 && refunds === 0
  const columns = [calls, revenueE18, refunds, refundedE18]
  const said = ['calls', 'revenue_e18', 'refunds', 'refunded_e18'].map((name) => String(kept[name]))
  const bytes = [(kept['buyers'] as Uint8Array | null) ?? [], changedCounts(null, buyers) ?? []]
  return (
    columns.join() === said.join() && Buffer.compare(Buffer.from(bytes[0]!), Buffer.from(bytes[1]!)) === 0
  )
}

function saysFees(kept: Row | undefined, sum: FeeSum): boolean {
  if (kept === undefined) return sum.sales === 0 && sum.refunds === 0
  const names = ['sales', 'sold', 'fees', 'refunds', 'refunded', 'returned', 'standing'] as const
  return names.every((name) => String(sum[name]) === String(kept[name]))
}

const dayOf = (unit: 'day' | 'hour', at: number): string =>
  new Date(at * (unit === 'day' ? 86_400_000 : 3_600_000)).toISOString().slice(0, unit === 'day' ? 10 : 13)
