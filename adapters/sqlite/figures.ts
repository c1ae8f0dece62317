import type { SQLInputValue } from 'node:sqlite'
import { parseAmount } from '../../core/domain/money.ts'
import type { SuspensionChange } from '../../core/domain/uptime.ts'
import {
  type Bucket,
  DAY_MS,
  type Figures,
  type HealthFigures,
  HOUR_MS,
  type LinkFigures,
  type Sales,
  type Span,
  type Totals,
} from '../../core/ports/figures.ts'
import type { Database } from './database.ts'
import { reading } from './failure.ts'
import type { ReaderThread } from './readerThread.ts'
import type { Row, Statement } from './statement.ts'

const dayUpsert = `INSERT INTO link_days (link_id, day, views, challenges, calls, failed_calls) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (link_id, day) DO UPDATE SET views = views + excluded.views, challenges = challenges + excluded.challenges,
    calls = calls + excluded.calls, failed_calls = failed_calls + excluded.failed_calls`
const hourUpsert = `INSERT INTO link_hours (link_id, hour, views, challenges) VALUES (?, ?, ?, ?)
  ON CONFLICT (link_id, hour) DO UPDATE SET views = views + excluded.views, challenges = challenges + excluded.challenges`

/** A link that is called often is not written anew each time. */
const CALLED_ANEW_MS = 60_000
/** It is asked first from now on whether it answers (core/ports/healthChecks.ts). */
const calledLinks = `UPDATE link_checks SET queue = 2, called_at_ms = ?2 WHERE link_id IN (SELECT value FROM json_each(?1))
  AND (queue <> 2 OR called_at_ms NOT BETWEEN ?2 - ${CALLED_ANEW_MS} AND ?2)`

/** Figures in SQLite, added up by a thread of its own: a store's sales of a quarter are read through, row by row. */
export function createFigures({ reader, writer, clock }: Database, thread: ReaderThread): Figures {
  const dayRows = reader.prepare(`SELECT day, probes, failed_probes, calls, failed_calls FROM link_days
    WHERE link_id = ? AND day >= ? AND (probes > 0 OR calls > 0) ORDER BY day`)
  const changeRows = reader.prepare(`SELECT at_ms, kind FROM health_events INDEXED BY health_events_changes
    WHERE link_id = ? AND at_ms >= ? AND kind <> 'probe' ORDER BY at_ms, id`)

  return {
    async addTraffic(rows) {
      const steps = rows.flatMap(({ linkId, hour, views, challenges, calls, failedCalls }): Statement[] => [
        {
          sql: dayUpsert,
          parameters: [linkId, Math.floor((hour * HOUR_MS) / DAY_MS), views, challenges, calls, failedCalls],
        },
        ...(views > 0 || challenges > 0
          ? [{ sql: hourUpsert, parameters: [linkId, hour, views, challenges] }]
          : []),
      ])
      const called = [...new Set(rows.filter(({ calls }) => calls > 0).map(({ linkId }) => linkId))]
      if (called.length > 0)
        steps.push({ sql: calledLinks, parameters: [JSON.stringify(called), clock.now()] })
      if (steps.length > 0) await writer.write('runAll', steps, 'visible')
    },

    async totals(storeId, span) {
      const [prices, buyers, back, seen] = await thread.read(
        ...salesOf('0', storeId, span),
        paidBack('0', storeId, span),
        seenIn(DAY_MS, '0', storeId, span),
      )
      return totalsOf(keyed(prices!), keyed(buyers!), keyed(back!), keyed(seen!), 0)
    },

    async series(storeId, { bucketMs, ...span }) {
      const [prices, buyers, back, seen] = (
        await thread.read(
          ...salesOf(`created_at_ms / ${bucketMs}`, storeId, span),
          paidBack(`r.refunded_at_ms / ${bucketMs}`, storeId, span),
          seenIn(bucketMs, 'at', storeId, span),
        )
      ).map(keyed)
      const keys = [...new Set([prices!, back!, seen!].flatMap((rows) => [...rows.keys()]))]
      return (keys as number[])
        .sort((a, b) => a - b)
        .map((key): Bucket => ({ startMs: key * bucketMs, ...totalsOf(prices!, buyers!, back!, seen!, key) }))
    },

    async ofLinks(storeId, span) {
      const links = span.linkId === undefined ? 'l.store_id = ?1 AND l.is_active = 1' : 'l.id = ?3'
      const parameters = (from: SQLInputValue) => [
        storeId,
        from,
        ...(span.linkId === undefined ? [] : [span.linkId]),
      ]
      const [prices, buyers, reviews, checks, changes] = (
        await thread.read(
          ...salesOf('link_id', storeId, span, span.linkId === undefined ? activeLink : 'true'),
          {
            sql: `SELECT l.id AS key, r.total, r.positive FROM links l JOIN review_counts r ON r.link_id = l.id
              WHERE ${links} AND l.store_id = ?1 AND ?2 IS NULL`,
            parameters: parameters(null),
          },
          {
            sql: `SELECT l.id AS key, sum(d.probes) AS probes, sum(d.failed_probes) AS failed_probes,
                sum(d.calls) AS calls, sum(d.failed_calls) AS failed_calls
              FROM links l CROSS JOIN link_days d ON d.link_id = l.id AND d.day >= ?2 WHERE ${links} AND l.store_id = ?1
              GROUP BY l.id`,
            parameters: parameters(Math.floor(span.fromMs / DAY_MS)),
          },
          {
            sql: `SELECT l.id AS key, h.at_ms, h.kind FROM links l CROSS JOIN health_events h
                INDEXED BY health_events_changes ON h.link_id = l.id AND h.at_ms >= ?2 AND h.kind <> 'probe'
              WHERE ${links} AND l.store_id = ?1 ORDER BY h.at_ms, h.id`,
            parameters: parameters(span.fromMs),
          },
        )
      ).map(keyed)
      const keys = new Set([prices!, reviews!, checks!, changes!].flatMap((rows) => [...rows.keys()]))
      return [...keys].map((key): LinkFigures => {
        const review = reviews!.get(key)?.[0]
        return {
          linkId: String(key),
          ...soldOf(prices!.get(key), buyers!.get(key)),
          reviews: { total: Number(review?.['total'] ?? 0), positive: Number(review?.['positive'] ?? 0) },
          health: healthFrom(checks!.get(key), changes!.get(key)),
        }
      })
    },

    async healthOf(linkIds, fromMs) {
      const ids = JSON.stringify(linkIds)
      const [checks, changes] = (
        await thread.read(
          {
            sql: `SELECT d.link_id AS key, sum(d.probes) AS probes, sum(d.failed_probes) AS failed_probes,
                sum(d.calls) AS calls, sum(d.failed_calls) AS failed_calls
              FROM json_each(?1) i CROSS JOIN link_days d ON d.link_id = i.value AND d.day >= ?2 GROUP BY d.link_id`,
            parameters: [ids, Math.floor(fromMs / DAY_MS)],
          },
          {
            sql: `SELECT h.link_id AS key, h.at_ms, h.kind FROM json_each(?1) i CROSS JOIN health_events h
                INDEXED BY health_events_changes ON h.link_id = i.value AND h.at_ms >= ?2 AND h.kind <> 'probe'
              ORDER BY h.at_ms, h.id`,
            parameters: [ids, fromMs],
          },
        )
      ).map(keyed)
      const known = linkIds.filter((id) => checks!.has(id) || changes!.has(id))
      return new Map(known.map((id) => [id, healthFrom(checks!.get(id), changes!.get(id))]))
    },

    async healthDays(linkId, fromMs) {
      const [days, changes] = reading(() => [
        dayRows.all(linkId, Math.floor(fromMs / DAY_MS)),
        changeRows.all(linkId, fromMs),
      ])
      return {
        days: days!.map((row) => ({ day: Number(row['day']), ...toChecks(row) })),
        changes: changes!.map(toChange),
      }
    },
  }
}

/** An EVM address is the same in either case; a Solana address is base58, where case counts. */
const wallet = `CASE WHEN network LIKE 'eip155:%' THEN lower(buyer_wallet) ELSE buyer_wallet END`

/** The wallets that sign in to a store, and those it is paid to: whoever buys from himself has sold nothing. */
const own = `own AS MATERIALIZED (SELECT address FROM store_wallets WHERE store_id = ?1
    UNION SELECT lower(payout_base) FROM stores WHERE id = ?1 AND payout_base IS NOT NULL
    UNION SELECT payout_solana FROM stores WHERE id = ?1 AND payout_solana IS NOT NULL)`

const activeLink = 'link_id IN (SELECT id FROM links WHERE store_id = ?1 AND is_active = 1)'

const ofSpan = (storeId: string, { linkId, fromMs, toMs }: Span) => ({
  parameters: [storeId, fromMs, toMs, ...(linkId === undefined ? [] : [linkId])],
  // Of one link by its own index: the store's has all of its sales.
  seller: linkId === undefined ? 'store_id = ?1' : 'link_id = ?4 AND +store_id = ?1',
})

/** How often at which price, and by how many. Decimal strings don't add up in SQL; there are few different prices. */
function salesOf(key: string, storeId: string, span: Span, condition = 'true'): Statement[] {
  const { parameters, seller } = ofSpan(storeId, span)
  const sold = `WITH ${own}, sold AS (SELECT ${wallet} AS wallet, price_usd, created_at_ms, link_id FROM purchases
    WHERE ${seller} AND created_at_ms >= ?2 AND created_at_ms < ?3 AND status IN ('settled', 'delivered')
      AND ${wallet} NOT IN own AND ${condition})`
  return [
    `${sold} SELECT ${key} AS key, price_usd, count(*) AS count FROM sold GROUP BY 1, 2`,
    `${sold} SELECT ${key} AS key, count(DISTINCT wallet) AS count FROM sold GROUP BY 1`,
  ].map((sql) => ({ sql, parameters }))
}

function paidBack(key: string, storeId: string, span: Span): Statement {
  const { parameters, seller } = ofSpan(storeId, span)
  return {
    sql: `WITH ${own} SELECT ${key} AS key, price_usd, count(*) AS count
      FROM (SELECT payment_id AS id, refunded_at_ms FROM refunds INDEXED BY refunds_time
        WHERE refunded_at_ms >= ?2 AND refunded_at_ms < ?3) r
        CROSS JOIN purchases ON purchases.payment_id = r.id
      WHERE ${seller.replace('link_id', '+link_id')} AND ${wallet} NOT IN own GROUP BY 1, 2`,
    parameters,
  }
}

function seenIn(
  bucketMs: number,
  key: 'at' | '0',
  storeId: string,
  { linkId, fromMs, toMs }: Span,
): Statement {
  const [table, column] = bucketMs === DAY_MS ? ['link_days', 'day'] : ['link_hours', 'hour']
  return {
    sql: `SELECT ${key === '0' ? '0' : `v.${column}`} AS key, sum(v.views) AS views, sum(v.challenges) AS challenges
      FROM links l CROSS JOIN ${table} v ON v.link_id = l.id AND v.${column} >= ?2 AND v.${column} <= ?3
      WHERE ${linkId === undefined ? '' : 'l.id = ?4 AND '}l.store_id = ?1
      GROUP BY 1 HAVING sum(v.views) + sum(v.challenges) > 0`,
    parameters: [
      storeId,
      Math.floor(fromMs / bucketMs),
      Math.floor((toMs - 1) / bucketMs),
      ...(linkId === undefined ? [] : [linkId]),
    ],
  }
}

type Keyed = ReadonlyMap<string | number, readonly Row[]>

const keyed = (rows: readonly Row[]): Keyed => Map.groupBy(rows, (row) => row['key'] as string | number)

function soldOf(prices: readonly Row[] | undefined, buyers: readonly Row[] | undefined): Sales {
  return { ...sumOf(prices), buyers: Number(buyers?.[0]?.['count'] ?? 0) }
}

const sumOf = (prices: readonly Row[] = []) => ({
  calls: prices.reduce((sum, row) => sum + Number(row['count']), 0),
  revenueE18: prices.reduce(
    (sum, row) => sum + parseAmount(String(row['price_usd']), 18) * BigInt(Number(row['count'])),
    0n,
  ),
})

function totalsOf(prices: Keyed, buyers: Keyed, back: Keyed, seen: Keyed, key: number): Totals {
  const { calls: refunds, revenueE18: refundedE18 } = sumOf(back.get(key))
  const views = seen.get(key)?.[0]
  return {
    views: Number(views?.['views'] ?? 0),
    challenges: Number(views?.['challenges'] ?? 0),
    ...soldOf(prices.get(key), buyers.get(key)),
    refunds,
    refundedE18,
  }
}

const healthFrom = (checks: readonly Row[] | undefined, changes: readonly Row[] = []): HealthFigures => ({
  checks: toChecks(checks?.[0]),
  changes: changes.map(toChange),
})

const toChecks = (row: Row | undefined) => ({
  probes: Number(row?.['probes'] ?? 0),
  failedProbes: Number(row?.['failed_probes'] ?? 0),
  calls: Math.max(0, Number(row?.['calls'] ?? 0)),
  failedCalls: Number(row?.['failed_calls'] ?? 0),
})

const toChange = (row: Row): SuspensionChange => ({
  atMs: Number(row['at_ms']),
  kind: row['kind'] as SuspensionChange['kind'],
})
