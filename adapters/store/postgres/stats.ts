import { type RawBuilder, sql } from 'kysely'
import { isTollgateError } from '../../../core/errors/error.ts'
import { DAY_MS, type HealthStats, HOUR_MS, type Span, type Stats } from '../../../core/ports/store/stats.ts'
import type { Row } from '../sql/rows.ts'
import { countBuyers, PAIR_BYTES } from '../sql/sales/buyerCounts.ts'
import { scopeOf, scopeOfLink } from '../sql/sales/saleRollups.ts'
import {
  CALLED_AGAIN_MS,
  healthByLink,
  isWhole,
  type Keyed,
  keyed,
  linkStats,
  seriesOf,
  toHealthDays,
  toTotals,
  type Unit,
  units,
} from '../sql/sales/statRows.ts'
import type { Database } from './database.ts'
import { sumUp, toE18 } from './rollups.ts'
import { holdName, transact } from './transact.ts'

/**
 * Stats in PostgreSQL. They are read from the rollups, so their cost does not grow with the number of sales. Sales are counted one
 * by one only for hours of a single link, and for spans that begin or end within an hour.
 */
export function createStats(database: Database): Stats {
  const { query, clock } = database

  const rowsOf = async (statement: RawBuilder<Row>): Promise<Row[]> => (await statement.execute(query)).rows

  /** Adds the pending notes to the rollups. If the database cannot write, the rollups are read as they are. */
  const summedUp = () =>
    sumUp(database).catch((error) => {
      if (!isTollgateError(error)) throw error
    })

  /** The sales of a span, in rows with `key`. They are read from the rollups if these cover exactly this span. */
  async function sold(storeId: string, span: Span, bucketMs?: number): Promise<Row[]> {
    await summedUp()
    const candidates: Unit[] =
      bucketMs === undefined ? ['day', 'hour'] : bucketMs === DAY_MS ? ['day'] : ['hour']
    const unit = candidates.find((one) => isWhole(one, span))
    if (unit !== undefined) {
      const units = [unit, channelUnits[unit]]
      return fromRollups(unit, units, storeId, span, bucketMs === undefined ? sql`0` : sql`s.at`)
    }
    // Sales by channels are counted by the hour, and a buyer who paid in both ways counts twice.
    const key = bucketMs === undefined ? sql`0` : bucketMs === HOUR_MS ? sql`s.at` : sql`s.at / 24`
    const [one, other] = await Promise.all([
      counted(storeId, span, bucketMs),
      fromRollups('hour', [channelUnits.hour], storeId, span, key),
    ])
    const byKey = Map.groupBy([...one, ...other], (row) => row['key'])
    return [...byKey.values()].map((of) => of.reduce(plusSold))
  }

  async function fromRollups(
    unit: Unit,
    kinds: readonly string[],
    storeId: string,
    { linkId, fromMs, toMs }: Span,
    key: RawBuilder<unknown>,
  ): Promise<Row[]> {
    const scope = scopeOf(storeId, linkId)
    const [from, to] = [Math.floor(fromMs / units[unit]), Math.ceil(toMs / units[unit])]
    const rows = await rowsOf(sql<Row>`
      SELECT ${key} AS key, ${summed} FROM sales_rollups s
      WHERE s.unit = ANY (${kinds}::text[]) AND s.scope = ${scope} AND s.at = ANY (${times(unit, from, to)}) GROUP BY 1`)
    return rows.map(withBuyers)
  }

  async function counted(storeId: string, span: Span, bucketMs?: number): Promise<Row[]> {
    const { linkId, fromMs, toMs } = span
    const key = (column: string) =>
      bucketMs === undefined ? sql`0` : sql`${sql.ref(column)} / ${sql.lit(bucketMs)}`
    const ofLink = linkId === undefined ? sql`true` : sql`u.link_id = ${linkId}`
    const rows = await rowsOf(sql<Row>`
      WITH sold AS (
        SELECT ${key('u.created_at_ms')} AS key, count(*) AS calls, sum(u.price_usd::numeric)::text AS revenue,
          count(DISTINCT wallet_of(u.network, u.buyer_wallet)) AS buyers
        FROM purchases u
        WHERE u.store_id = ${storeId} AND ${ofLink} AND u.created_at_ms >= ${fromMs} AND u.created_at_ms < ${toMs}
          AND u.status IN ('settled', 'delivered') AND NOT EXISTS (SELECT 1 FROM own_sales o WHERE o.payment_id = u.payment_id)
        GROUP BY 1),
      back AS (
        SELECT ${key('r.refunded_at_ms')} AS key, count(*) AS refunds, sum(u.price_usd::numeric)::text AS refunded
        FROM refunds r JOIN purchases u ON u.payment_id = r.payment_id
        WHERE u.store_id = ${storeId} AND ${ofLink} AND r.refunded_at_ms >= ${fromMs} AND r.refunded_at_ms < ${toMs}
          AND NOT EXISTS (SELECT 1 FROM own_sales o WHERE o.payment_id = u.payment_id)
        GROUP BY 1)
      SELECT * FROM sold FULL JOIN back USING (key)`)
    return rows.map((row) => ({ ...row, revenue: toE18(row['revenue']), refunded: toE18(row['refunded']) }))
  }

  const seen = (bucketMs: number, isByTime: boolean, storeId: string, { linkId, fromMs, toMs }: Span) => {
    const unit = bucketMs === DAY_MS ? 'day' : 'hour'
    const [column, ofStore, ofLink] = [
      sql.ref(`v.${unit}`),
      sql.table(`store_${unit}s`),
      sql.table(`link_${unit}s`),
    ]
    const from =
      linkId === undefined
        ? sql`${ofStore} v WHERE v.store_id = ${storeId}`
        : sql`links l JOIN ${ofLink} v ON v.link_id = l.id WHERE l.store_id = ${storeId} AND l.id = ${linkId}`
    return rowsOf(sql<Row>`
      SELECT ${isByTime ? column : sql`0`} AS key, sum(v.views) AS views, sum(v.challenges) AS challenges
      FROM ${from} AND ${column} >= ${Math.floor(fromMs / bucketMs)} AND ${column} <= ${Math.floor((toMs - 1) / bucketMs)}
      GROUP BY 1 HAVING sum(v.views) + sum(v.challenges) > 0`)
  }

  async function healthOf(linkIds: readonly string[], fromMs: number): Promise<Map<string, HealthStats>> {
    const [checks, changes] = (
      await Promise.all([
        rowsOf(sql<Row>`
          SELECT link_id AS key, sum(probes) AS probes, sum(failed_probes) AS failed_probes, sum(calls) AS calls,
            sum(failed_calls) AS failed_calls
          FROM link_days WHERE link_id = ANY (${linkIds}::text[]) AND day >= ${Math.floor(fromMs / DAY_MS)} GROUP BY link_id`),
        rowsOf(sql<Row>`
          SELECT link_id AS key, at_ms, kind FROM health_events
          WHERE link_id = ANY (${linkIds}::text[]) AND at_ms >= ${fromMs} AND kind <> 'probe' ORDER BY at_ms, id`),
      ])
    ).map(keyed) as [Keyed, Keyed]
    return healthByLink(linkIds, checks, changes)
  }

  return {
    async addTraffic(rows) {
      if (rows.length === 0) return
      const column = <T>(of: (row: (typeof rows)[number]) => T) => rows.map(of)
      const given = sql`unnest(${column((r) => r.linkId)}::text[], ${column((r) => r.hour)}::bigint[],
        ${column((r) => r.views)}::bigint[], ${column((r) => r.challenges)}::bigint[], ${column((r) => r.calls)}::bigint[],
        ${column((r) => r.failedCalls)}::bigint[]) AS g (link_id, hour, views, challenges, calls, failed_calls)`
      const called = rows.filter(({ calls }) => calls > 0).map(({ linkId }) => linkId)
      await transact(
        database,
        async (trx) => {
          // One process at a time writes, because two would deadlock on each other's links.
          await holdName(trx, 'traffic')
          // Locks the links before their days, in the same order as health checks. In another order, the two would deadlock.
          const ids = column((r) => r.linkId)
          await sql`SELECT FROM link_checks WHERE link_id = ANY (${ids}::text[]) ORDER BY link_id FOR UPDATE`.execute(
            trx,
          )
          await sql`
          INSERT INTO link_days AS d (link_id, day, views, challenges, calls, failed_calls)
          SELECT link_id, hour * ${sql.lit(HOUR_MS)} / ${sql.lit(DAY_MS)}, sum(views), sum(challenges), sum(calls), sum(failed_calls)
          FROM ${given} GROUP BY 1, 2
          ON CONFLICT (link_id, day) DO UPDATE SET views = d.views + excluded.views,
            challenges = d.challenges + excluded.challenges, calls = d.calls + excluded.calls,
            failed_calls = d.failed_calls + excluded.failed_calls`.execute(trx)
          await sql`
          INSERT INTO link_hours AS h (link_id, hour, views, challenges)
          SELECT link_id, hour, sum(views), sum(challenges) FROM ${given} WHERE views > 0 OR challenges > 0 GROUP BY 1, 2
          ON CONFLICT (link_id, hour) DO UPDATE
          SET views = h.views + excluded.views, challenges = h.challenges + excluded.challenges`.execute(trx)
          if (called.length === 0) return
          // Moves called links to the queue that health checks serve first (core/ports/store/healthChecks.ts).
          const nowMs = clock.now()
          await sql`
          UPDATE link_checks SET queue = 2, called_at_ms = ${nowMs} WHERE link_id = ANY (${called}::text[])
            AND (queue <> 2 OR called_at_ms NOT BETWEEN ${nowMs - CALLED_AGAIN_MS} AND ${nowMs})`.execute(trx)
        },
        'visible',
      )
    },

    sumUp: () => sumUp(database),

    async totals(storeId, span) {
      const [[sales], [views]] = await Promise.all([sold(storeId, span), seen(DAY_MS, false, storeId, span)])
      return toTotals(sales, views)
    },

    async series(storeId, { bucketMs, ...span }) {
      const [sales, views] = (
        await Promise.all([sold(storeId, span, bucketMs), seen(bucketMs, true, storeId, span)])
      ).map(keyed) as [Keyed, Keyed]
      return seriesOf(bucketMs, sales, views)
    },

    async ofLinks(storeId, linkIds, fromMs) {
      await summedUp()
      const prefix = scopeOfLink(storeId, '')
      const [rollups, reviews] = (
        await Promise.all([
          rowsOf(sql<Row>`
            SELECT i.id AS key, ${summed} FROM unnest(${linkIds}::text[]) AS i (id)
              CROSS JOIN LATERAL (
                SELECT * FROM sales_rollups WHERE unit IN ('day', 'channel_day') AND scope = ${prefix} || i.id
                  AND at = ANY (${times('day', Math.floor(fromMs / DAY_MS), Number.MAX_SAFE_INTEGER)}) OFFSET 0) s
            GROUP BY 1`).then((rows) => rows.map(withBuyers)),
          rowsOf(sql<Row>`
            SELECT l.id AS key, r.total, r.positive FROM links l LEFT JOIN review_counts r ON r.link_id = l.id
            WHERE l.id = ANY (${linkIds}::text[]) AND l.store_id = ${storeId}`),
        ])
      ).map(keyed) as [Keyed, Keyed]
      return linkStats(linkIds, rollups, reviews, await healthOf(linkIds, fromMs))
    },

    healthOf,

    async healthDays(linkId, fromMs) {
      const [days, changes] = await Promise.all([
        rowsOf(sql<Row>`
          SELECT day, probes, failed_probes, calls, failed_calls FROM link_days
          WHERE link_id = ${linkId} AND day >= ${Math.floor(fromMs / DAY_MS)} AND (probes > 0 OR calls > 0) ORDER BY day`),
        rowsOf(sql<Row>`
          SELECT at_ms, kind FROM health_events
          WHERE link_id = ${linkId} AND at_ms >= ${fromMs} AND kind <> 'probe' ORDER BY at_ms, id`),
      ])
      return toHealthDays(days, changes)
    },
  }
}

/**
 * The days or hours of a span that have rollups. With this list, PostgreSQL finds each row by time and scope. The `OFFSET 0` above
 * keeps it from reading the rows of other scopes in between.
 */
const times = (unit: Unit, from: number, to: number) => sql`ARRAY(SELECT generate_series(
  greatest(${from}::bigint, least((SELECT min(at) FROM sales_rollups WHERE unit = ${unit}),
    (SELECT min(at) FROM sales_rollups WHERE unit = ${channelUnits[unit]}))),
  least(${to}::bigint - 1, coalesce(greatest((SELECT max(at) FROM sales_rollups WHERE unit = ${unit}),
    (SELECT max(at) FROM sales_rollups WHERE unit = ${channelUnits[unit]})), 0))))`

/** The rollups of payment channels. */
const channelUnits = { day: 'channel_day', hour: 'channel_hour' } as const

const plusSold = (a: Row, b: Row): Row => {
  const number = (name: string) => Number(a[name] ?? 0) + Number(b[name] ?? 0)
  const amount = (name: string) => String(BigInt(String(a[name] ?? 0)) + BigInt(String(b[name] ?? 0)))
  return {
    key: a['key'],
    calls: number('calls'),
    buyers: number('buyers'),
    revenue: amount('revenue'),
    refunds: number('refunds'),
    refunded: amount('refunded'),
  }
}

const summed = sql`sum(s.calls) AS calls, sum(s.revenue_e18::numeric)::text AS revenue, sum(s.refunds) AS refunds,
  sum(s.refunded_e18::numeric)::text AS refunded, CASE WHEN count(*) > 1 THEN encode(string_agg(s.buyers, ''), 'base64') END AS buyers,
  max(octet_length(s.buyers)) AS bytes`

/**
 * Distinct buyers are counted here, because each day has its own set. They arrive as one base64 text. An array would take ten times
 * as long to read, and hex would take the main thread half as long again. For a single day the count is the number of pairs.
 */
const withBuyers = (row: Row): Row => {
  const buyers = row['buyers'] as string | null
  if (buyers === null) return { ...row, buyers: Number(row['bytes'] ?? 0) / PAIR_BYTES }
  return { ...row, buyers: countBuyers([Buffer.from(buyers, 'base64')]) }
}
