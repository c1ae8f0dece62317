import type pg from 'pg'
import { DAY_MS, HOUR_MS } from '../../../../core/ports/store/stats.ts'
import type { Report } from '../../sql/sales/ledgerFindings.ts'

/** Timeout of one query, in ms. A query reads all sales to find those of a month. */
const CHECK_TIMEOUT_MS = 600_000

/**
 * Compares the rollups, from which stats and fees are read, with the sales themselves. It checks purchases, revenue and refunds of
 * stores and links by day and hour, what each store owes by month, and views. Each month is read in one transaction. The number of
 * buyers is not recounted.
 *
 * @param onPage called with the months that were checked and the total
 */
export async function checkRollups(
  client: pg.PoolClient,
  report: Report,
  onPage: (months: number, all: number) => void,
): Promise<void> {
  const months = await check(client, allMonths, [])
  for (const [i, { month, from_ms: fromMs, to_ms: toMs }] of months.entries()) {
    for (const { at, scope, is_sold: isSold } of await check(client, wrongSales, [fromMs, toMs]))
      report(`the sums of ${scope} on ${at} are ${isSold ? 'not those of its sales' : notThere}`)
    for (const { store_id: store, is_sold: isSold } of await check(client, wrongFees, [fromMs, toMs, month]))
      report(
        `the fees of ${store} in ${month} are ${isSold ? 'not summed up to those of its sales' : `summed up ${notThere}`}`,
      )
    onPage(i + 1, months.length)
  }
  for (const { store_id: store, at } of await check(client, wrongViews, []))
    report(`the views of ${store} on ${at} are not those of its links`)
}

const notThere = 'of sales that are not there'

async function check(client: pg.PoolClient, text: string, values: readonly unknown[]) {
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
  await client.query(`SET LOCAL statement_timeout = ${CHECK_TIMEOUT_MS}`)
  const query = { text, values: [...values], query_timeout: CHECK_TIMEOUT_MS }
  const { rows } = await client.query<Record<string, string | number | boolean>>(query)
  await client.query('COMMIT')
  return rows
}

const utc = (ms: string) => `(to_timestamp(${ms} / 1000) AT TIME ZONE 'UTC')`
const monthOf = (ms: string) => `to_char(${utc(ms)}, 'YYYY-MM')`
const ms = (date: string) => `(extract(epoch FROM ${date} AT TIME ZONE 'UTC') * 1000)::bigint`

const allMonths = `
  WITH months AS (
    SELECT ${monthOf('created_at_ms')} AS month FROM purchases UNION SELECT ${monthOf('refunded_at_ms')} FROM refunds
    UNION SELECT ${monthOf(`at * CASE unit WHEN 'day' THEN ${DAY_MS} ELSE ${HOUR_MS} END`)} FROM sales_rollups
      WHERE unit IN ('day', 'hour')
    UNION SELECT month FROM fee_rollups)
  SELECT month, ${ms(`to_date(month, 'YYYY-MM')::timestamp`)} AS from_ms,
    ${ms(`(to_date(month, 'YYYY-MM') + interval '1 month')`)} AS to_ms FROM months ORDER BY month`

const firstNote = (of: string) =>
  `SELECT DISTINCT ON (payment_id) payment_id, was, refunded_at_ms FROM rollups_due WHERE ${of} ORDER BY payment_id, id`
const isWithin = (ms: string) => `${ms} >= $1 AND ${ms} < $2`
/**
 * The purchases and refunds as the rollups contain them, which is the state before the first pending note. Notes of a status and
 * notes of a refund are separate, because the rollups may contain one kind without the other.
 */
const known = `
  due AS (${firstNote('became IS NOT NULL')}),
  due_back AS (${firstNote('became IS NULL')}),
  known AS (
    SELECT u.*, CASE WHEN d.payment_id IS NULL THEN u.status ELSE d.was END AS became,
      CASE WHEN d.payment_id IS NULL THEN r.refunded_at_ms ELSE d.refunded_at_ms END AS refunded_at_ms,
      CASE WHEN b.payment_id IS NULL THEN r.refunded_at_ms WHEN b.was IS NOT NULL THEN b.refunded_at_ms END AS back_at_ms
    FROM purchases u LEFT JOIN refunds r ON r.payment_id = u.payment_id LEFT JOIN due d ON d.payment_id = u.payment_id
      LEFT JOIN due_back b ON b.payment_id = u.payment_id
    WHERE ${['u.created_at_ms', 'r.refunded_at_ms', 'd.refunded_at_ms', 'b.refunded_at_ms'].map(isWithin).join(' OR ')})`

/** The rollups that count a sale or a refund. */
const placesOf = (
  at: string,
) => `LATERAL (VALUES ('day', ${at} / ${DAY_MS}, store_id), ('hour', ${at} / ${HOUR_MS}, store_id),
    ('day', ${at} / ${DAY_MS}, store_id || '/' || nullif(link_id, ''))) AS place (unit, at, scope)`
const e18 = `CASE WHEN price_usd ~ '^[0-9]+(\\.[0-9]+)?$' THEN price_usd::numeric ELSE 0 END * 1000000000000000000`

const wrongSales = `
  WITH ${known},
  own AS (SELECT payment_id FROM own_sales),
  others AS (SELECT k.* FROM known k WHERE NOT EXISTS (SELECT 1 FROM own WHERE own.payment_id = k.payment_id)),
  one AS (
    SELECT place.*, 1 AS calls, ${e18} AS revenue, 0 AS refunds, 0 AS refunded FROM others, ${placesOf('created_at_ms')}
      WHERE became IN ('settled', 'delivered') AND created_at_ms >= $1 AND created_at_ms < $2
    UNION ALL
    SELECT place.*, 0, 0, 1, ${e18} FROM others, ${placesOf('back_at_ms')}
      WHERE ${isWithin('back_at_ms')}),
  sold AS (
    SELECT unit, at, scope, sum(calls) AS calls, trunc(sum(revenue))::text AS revenue, sum(refunds) AS refunds,
      trunc(sum(refunded))::text AS refunded
    FROM one WHERE scope IS NOT NULL GROUP BY unit, at, scope),
  kept AS (
    SELECT * FROM sales_rollups WHERE unit = 'day' AND at >= $1::bigint / ${DAY_MS} AND at < $2::bigint / ${DAY_MS}
    UNION ALL SELECT * FROM sales_rollups WHERE unit = 'hour' AND at >= $1::bigint / ${HOUR_MS} AND at < $2::bigint / ${HOUR_MS})
  SELECT coalesce(s.scope, k.scope) AS scope, s.scope IS NOT NULL AS is_sold,
    CASE coalesce(s.unit, k.unit) WHEN 'day' THEN to_char(${utc(`coalesce(s.at, k.at) * ${DAY_MS}`)}, 'YYYY-MM-DD')
      ELSE to_char(${utc(`coalesce(s.at, k.at) * ${HOUR_MS}`)}, 'YYYY-MM-DD"T"HH24') END AS at
  FROM sold s FULL JOIN kept k ON k.unit = s.unit AND k.at = s.at AND k.scope = s.scope
  WHERE (s.calls, s.revenue, s.refunds, s.refunded) IS DISTINCT FROM (k.calls, k.revenue_e18, k.refunds, k.refunded_e18)
  ORDER BY 3, 1`

const unit = `store_id, network, CASE WHEN network LIKE 'eip155:%' THEN lower(asset) ELSE asset END AS unit, symbol, decimals`
const whole = (name: string) => `CASE WHEN ${name} ~ '^[0-9]+$' THEN ${name}::numeric ELSE 0 END`
const total = (name: string) => `sum(${name})::text AS ${name}`

const wrongFees = `
  WITH ${known},
  one AS (
    SELECT ${unit}, 1 AS sales, ${whole('amount_atomic')} AS sold, ${whole('fee_atomic')} AS fees, 0 AS refunds, 0 AS refunded,
      0 AS returned, CASE became WHEN 'refunded' THEN 0 ELSE ${whole('amount_atomic')} END AS standing
    FROM known WHERE became <> 'reorged' AND created_at_ms >= $1 AND created_at_ms < $2
    UNION ALL
    SELECT ${unit}, 0, 0, 0, 1, ${whole('amount_atomic')}, ${whole('fee_atomic')}, 0
    FROM known WHERE became = 'refunded' AND refunded_at_ms >= $1 AND refunded_at_ms < $2),
  sold AS (
    SELECT store_id, network, unit, symbol, decimals, sum(sales) AS sales, sum(refunds) AS refunds,
      ${['sold', 'fees', 'refunded', 'returned', 'standing'].map(total).join(', ')}
    FROM one GROUP BY store_id, network, unit, symbol, decimals),
  kept AS (SELECT * FROM fee_rollups WHERE month = $3)
  SELECT coalesce(s.store_id, k.store_id) AS store_id, bool_or(s.store_id IS NOT NULL) AS is_sold
  FROM sold s FULL JOIN kept k ON k.store_id = s.store_id AND k.network = s.network AND k.unit = s.unit
    AND k.symbol = s.symbol AND k.decimals = s.decimals
  WHERE (s.sales, s.sold, s.fees, s.refunds, s.refunded, s.returned, s.standing)
    IS DISTINCT FROM (k.sales, k.sold, k.fees, k.refunds, k.refunded, k.returned, k.standing)
  GROUP BY 1 ORDER BY 1`

const wrongViews = `
  WITH counted AS (
    SELECT l.store_id, v.day, sum(v.views) AS views, sum(v.challenges) AS challenges
    FROM link_days v JOIN links l ON l.id = v.link_id WHERE v.views <> 0 OR v.challenges <> 0 GROUP BY l.store_id, v.day),
  kept AS (SELECT * FROM store_days WHERE views <> 0 OR challenges <> 0)
  SELECT coalesce(c.store_id, k.store_id) AS store_id,
    to_char(${utc(`coalesce(c.day, k.day) * ${DAY_MS}`)}, 'YYYY-MM-DD') AS at
  FROM counted c FULL JOIN kept k ON k.store_id = c.store_id AND k.day = c.day
  WHERE (c.views, c.challenges) IS DISTINCT FROM (k.views, k.challenges) ORDER BY 1, 2`
