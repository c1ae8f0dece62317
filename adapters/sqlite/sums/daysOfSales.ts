import type { DatabaseSync } from 'node:sqlite'
import { DAY_MS } from '../../../core/ports/store/figures.ts'

/** A stretch of payments, most of which were sold on one day. Each payment is in one stretch. */
export interface DayOfSales {
  /** Days since 1970. */
  readonly day: number
  /** The rows after this one… */
  readonly from: number
  /** …up to this one. The last day has all that come meanwhile. */
  readonly to: number
}

/** A month and its days, from the first of their payments to the last. */
export interface MonthOfSales {
  /** Such as `2026-05`. */
  readonly month: string
  readonly days: readonly DayOfSales[]
  readonly from: number
  readonly to: number
  readonly endMs: number
}

const [firstRow, lastRow] = [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER]

/** Every month in which something was sold or paid back, or for which there is a sum, with its days. */
export function monthsOfSales(database: DatabaseSync, nowMs: number): readonly MonthOfSales[] {
  const days = Map.groupBy(daysOfSales(database, nowMs), ({ day }) => monthOf(day * DAY_MS))
  const billed = database.prepare('SELECT DISTINCT month FROM fee_sums').all()
  const months = new Set([...days.keys(), ...billed.map(({ month }) => String(month))])
  return [...months].sort().map((month) => {
    const within = days.get(month) ?? []
    const [, endMs] = spanOf(month)
    return { month, days: within, from: within.at(0)?.from ?? 0, to: within.at(-1)?.to ?? 0, endMs }
  })
}

/** Such as `2026-05`. */
export const monthOf = (ms: number): string => new Date(ms).toISOString().slice(0, 7)

/** Its first moment, and the first of the next. */
export function spanOf(month: string): readonly [fromMs: number, toMs: number] {
  const first = new Date(`${month}-01T00:00:00Z`)
  return [first.getTime(), Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1)]
}

/**
 * Every day on which something was sold or paid back, or for which there is a sum, by time. Where a day ends is looked for by
 * halves: sales come about in the order of their payments. What does not (it was found on the chain days later) is left for whoever
 * reads the stretch to see.
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
    coalesce((SELECT min(at) FROM sales_sums WHERE unit = 'day' AND at > ?1), ${lastRow}),
    coalesce((SELECT min(at) / 24 FROM sales_sums WHERE unit = 'hour' AND at >= (?1 + 1) * 24), ${lastRow}),
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
