import type { DatabaseSync } from 'node:sqlite'
import { DAY_MS } from '../../../../core/ports/store/stats.ts'
import type { Row } from '../statement.ts'

/** A range of payments, most of which were sold on one day. Each payment is in exactly one range. */
export interface DayOfSales {
  /** Days since 1970. */
  readonly day: number
  /** The range begins after this row. */
  readonly from: number
  /** The range ends with this row. The last day contains all later rows. */
  readonly to: number
}

/** A month and its days. */
export interface MonthOfSales {
  /** Such as `2026-05`. */
  readonly month: string
  readonly days: readonly DayOfSales[]
  readonly from: number
  readonly to: number
  readonly endMs: number
}

const [firstRow, lastRow] = [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER]

/** Every month with a sale, a refund or a rollup, and its days. */
export function monthsOfSales(database: DatabaseSync, nowMs: number): readonly MonthOfSales[] {
  const days = Map.groupBy(daysOfSales(database, nowMs), ({ day }) => monthOf(day * DAY_MS))
  const billed = database.prepare('SELECT DISTINCT month FROM fee_rollups').all()
  const months = new Set([...days.keys(), ...billed.map(({ month }) => String(month))])
  return [...months].sort().map((month) => {
    const within = days.get(month) ?? []
    const [, endMs] = spanOf(month)
    return { month, days: within, from: within.at(0)?.from ?? 0, to: within.at(-1)?.to ?? 0, endMs }
  })
}

/** Such as `2026-05`. */
export const monthOf = (ms: number): string => new Date(ms).toISOString().slice(0, 7)

/** The first moment of a month and of the next one, in ms since 1970. */
export function spanOf(month: string): readonly [fromMs: number, toMs: number] {
  const first = new Date(`${month}-01T00:00:00Z`)
  return [first.getTime(), Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1)]
}

/**
 * Every day with a sale, a refund or a rollup, in order of time. Binary search finds the end of a day, because sales are made
 * roughly in the order of their payments. The reader of a range must handle exceptions, such as sales that recovery finds on chain
 * days later.
 */
function daysOfSales(database: DatabaseSync, nowMs: number): readonly DayOfSales[] {
  const span = database.prepare(
    'SELECT min(payment_id) - 1 AS oldest, max(payment_id) AS newest FROM purchases',
  )
  const { oldest, newest } = span.get()!
  const after = database.prepare(
    'SELECT payment_id AS id, created_at_ms AS ms FROM purchases WHERE payment_id > ? ORDER BY payment_id LIMIT 1',
  )
  const others = database.prepare(`SELECT min(
    coalesce((SELECT min(at) FROM sales_rollups WHERE unit = 'day' AND at > ?1), ${lastRow}),
    coalesce((SELECT min(at) / 24 FROM sales_rollups WHERE unit = 'hour' AND at >= (?1 + 1) * 24), ${lastRow}),
    coalesce((SELECT min(refunded_at_ms) / ${DAY_MS} FROM refunds WHERE refunded_at_ms >= (?1 + 1) * ${DAY_MS}), ${lastRow})
  ) AS day`)

  function endOf(day: number, from: number): number {
    let [low, high] = [Math.max(from, Number(oldest)), Number(newest)]
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      const { id, ms } = after.get(middle)!
      if (Number(ms) < (day + 1) * DAY_MS) low = Number(id)
      else high = middle
    }
    return low
  }

  const days: DayOfSales[] = []
  for (let [day, from] = [-1, firstRow]; ; ) {
    const sale = after.get(from)
    const sold = sale === undefined ? lastRow : Math.max(Math.floor(Number(sale['ms']) / DAY_MS), day + 1)
    const next = Math.min(sold, Number(others.get(day)!['day']))
    if (next === lastRow) break
    const to = sale === undefined ? from : endOf(next, from)
    days.push({ day: next, from, to })
    ;[day, from] = [next, to]
  }
  const last = days.pop() ?? { day: Math.floor(nowMs / DAY_MS), from: firstRow }
  return [...days, { ...last, to: lastRow }]
}

const firstNote = (of: string) =>
  `(SELECT payment_id, min(id) AS id, was, refunded_at_ms FROM rollups_due WHERE ${of} GROUP BY payment_id)`
/**
 * A purchase as the rollups contain it, which is its state before the first pending note. Notes of its status and notes of its
 * refund are separate, because the rollups may contain one kind without the other.
 */
const sales = (from: string) => `
  SELECT u.*, o.payment_id AS own, NULL AS was, iif(d.id IS NULL, u.status, d.was) AS became,
    iif(d.id IS NULL, r.refunded_at_ms, d.refunded_at_ms) AS refunded_at_ms,
    iif(b.id IS NULL, r.refunded_at_ms, iif(b.was IS NULL, NULL, b.refunded_at_ms)) AS back_at_ms
  FROM ${from} LEFT JOIN refunds r ON r.payment_id = u.payment_id LEFT JOIN own_sales o ON o.payment_id = u.payment_id
    LEFT JOIN ${firstNote('became IS NOT NULL')} d ON d.payment_id = u.payment_id
    LEFT JOIN ${firstNote('became IS NULL')} b ON b.payment_id = u.payment_id
  WHERE u.store_id = ?1`
const soldIn = `${sales('purchases u')} AND u.created_at_ms >= ?2 AND u.created_at_ms < ?3`
const isWithin = 'refunded_at_ms >= ?2 AND refunded_at_ms < ?3'
const paidBackIn = sales(`(
    SELECT payment_id FROM refunds INDEXED BY refunds_time WHERE ${isWithin}
    UNION SELECT payment_id FROM rollups_due WHERE ${isWithin}) c
  CROSS JOIN purchases u ON u.payment_id = c.payment_id`)
const dueIn = `SELECT DISTINCT u.store_id FROM rollups_due d CROSS JOIN purchases u ON u.payment_id = d.payment_id
  WHERE u.created_at_ms >= ?1 AND u.created_at_ms < ?2 OR d.refunded_at_ms >= ?1 AND d.refunded_at_ms < ?2`

/** The sales and refunds of a store within a time that the rollups must contain. Pending notes are left out. */
export function soldWithin(database: DatabaseSync) {
  const [sold, paidBack, due] = [soldIn, paidBackIn, dueIn].map((sql) => database.prepare(sql))

  /** Refunds whose time in the rollups is within the span. */
  function* backWithin(time: 'refunded_at_ms' | 'back_at_ms', storeId: string, fromMs: number, toMs: number) {
    for (const row of paidBack!.iterate(storeId, fromMs, toMs) as Iterable<Row>) {
      const atMs = row[time]
      if (atMs != null && Number(atMs) >= fromMs && Number(atMs) < toMs)
        yield { ...row, refunded_at_ms: atMs }
    }
  }

  return {
    sold: (storeId: string, fromMs: number, toMs: number): Iterable<Row> =>
      sold!.iterate(storeId, fromMs, toMs),
    /** Refunded purchases by the time of the refund. Fees are added up by this time. */
    refunded: (storeId: string, fromMs: number, toMs: number): Iterable<Row> =>
      backWithin('refunded_at_ms', storeId, fromMs, toMs),
    /** Recorded refunds by their time. Stats are added up by this time. */
    paidBack: (storeId: string, fromMs: number, toMs: number): Iterable<Row> =>
      backWithin('back_at_ms', storeId, fromMs, toMs),
    /** Stores with a pending note. */
    due: (fromMs: number, toMs: number): string[] =>
      due!.all(fromMs, toMs).map((row) => String(row['store_id'])),
  }
}
