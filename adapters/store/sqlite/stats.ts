import { LRUCache } from 'lru-cache'
import { parseAmount } from '../../../core/domain/money.ts'
import { isTollgateError } from '../../../core/errors/error.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import {
  DAY_MS,
  type HealthStats,
  HOUR_MS,
  type Sales,
  type Span,
  type Stats,
  type Totals,
} from '../../../core/ports/store/stats.ts'
import type { Row } from '../sql/rows.ts'
import { scopeOf, scopeOfLink } from '../sql/sales/saleRollups.ts'
import {
  bucketsOf,
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
import type { Database } from './connect.ts'
import { reading } from './failure.ts'
import type { ReaderThread } from './reader/readerThread.ts'
import type { Statement } from './statement.ts'

// All rows of a write are one text, because each separate value costs more on its way to the writer thread than its insert. `true`
// tells the parser that ON belongs to the conflict clause and not to a join.
const dayUpserts = `INSERT INTO link_days (link_id, day, views, challenges, calls, failed_calls)
  SELECT value->>0, value->>1, value->>3, value->>4, value->>5, value->>6 FROM json_each(?) WHERE true
  ON CONFLICT (link_id, day) DO UPDATE SET views = views + excluded.views, challenges = challenges + excluded.challenges,
    calls = calls + excluded.calls, failed_calls = failed_calls + excluded.failed_calls`
const hourUpserts = `INSERT INTO link_hours (link_id, hour, views, challenges)
  SELECT value->>0, value->>2, value->>3, value->>4 FROM json_each(?) WHERE value->>3 > 0 OR value->>4 > 0
  ON CONFLICT (link_id, hour) DO UPDATE SET views = views + excluded.views, challenges = challenges + excluded.challenges`

/** Moves called links to the queue that health checks serve first (core/ports/store/healthChecks.ts). */
const calledLinks = `UPDATE link_checks SET queue = 2, called_at_ms = ?2 WHERE link_id IN (SELECT value FROM json_each(?1))
  AND (queue <> 2 OR called_at_ms NOT BETWEEN ?2 - ${CALLED_AGAIN_MS} AND ?2)`

/**
 * Stats in SQLite. They are read from the rollups (rollups/), so their cost does not grow with the number of sales. Sales are
 * counted one by one only for hours of a single link, and for spans that begin or end within an hour. The slow thread counts these.
 */
export function createStats(database: Database, thread: ReaderThread, slow: ReaderThread): Stats {
  const { reader, writer, clock } = database
  const dayRows = reader.prepare(`SELECT day, probes, failed_probes, calls, failed_calls FROM link_days
    WHERE link_id = ? AND day >= ? AND (probes > 0 OR calls > 0) ORDER BY day`)
  const changeRows = reader.prepare(`SELECT at_ms, kind FROM health_events INDEXED BY health_events_changes
    WHERE link_id = ? AND at_ms >= ? AND kind <> 'probe' ORDER BY at_ms, id`)
  const counted = rarelyCounted(countedStats(slow), clock)

  /** Adds the pending notes to the rollups. If the database cannot write, the rollups are read as they are. */
  const summedUp = () =>
    sumUp(database).catch((error) => {
      if (!isTollgateError(error)) throw error
    })

  async function read(storeId: string, ...steps: readonly Statement[]): Promise<readonly Row[][]> {
    await summedUp()
    return thread.of(storeId).read(...steps)
  }

  return {
    async addTraffic(rows) {
      if (rows.length === 0) return
      const text = JSON.stringify(
        rows.map(({ linkId, hour, views, challenges, calls, failedCalls }) => {
          const day = Math.floor((hour * HOUR_MS) / DAY_MS)
          return [linkId, day, hour, views, challenges, calls, failedCalls]
        }),
      )
      const steps: Statement[] = [dayUpserts, hourUpserts].map((sql) => ({ sql, parameters: [text] }))
      const called = [...new Set(rows.filter(({ calls }) => calls > 0).map(({ linkId }) => linkId))]
      if (called.length > 0)
        steps.push({ sql: calledLinks, parameters: [JSON.stringify(called), clock.now()] })
      await writer.write('runAll', steps, 'visible')
    },

    sumUp: () => sumUp(database),

    async totals(storeId, span) {
      const unit = (['day', 'hour'] as const).find((unit) => isWhole(unit, span))
      if (unit === undefined) return summedUp().then(() => counted.totals(storeId, span))
      const [[sold], [seen]] = (await read(
        storeId,
        rollupsOf(unit, storeId, span),
        seenIn(DAY_MS, '0', storeId, span),
      )) as [Row[], Row[]]
      return toTotals(sold, seen)
    },

    async series(storeId, { bucketMs, ...span }) {
      const unit = bucketMs === DAY_MS ? 'day' : 'hour'
      if (!isWhole(unit, span)) return summedUp().then(() => counted.series(storeId, { bucketMs, ...span }))
      const [rollups, seen] = (
        await read(storeId, rollupsOf(unit, storeId, span, 'at'), seenIn(bucketMs, 'at', storeId, span))
      ).map(keyed) as [Keyed, Keyed]
      return seriesOf(bucketMs, rollups, seen)
    },

    async ofLinks(storeId, linkIds, fromMs) {
      const fromDay = Math.floor(fromMs / DAY_MS)
      const ids = JSON.stringify(linkIds)
      const [rollups, reviews] = (
        await read(
          storeId,
          {
            sql: `WITH RECURSIVE ${times} SELECT i.value AS key, ${summed}
              FROM json_each(?5) i CROSS JOIN times t CROSS JOIN sales_rollups s
                ON s.unit IN (?1, 'channel_' || ?1) AND s.at = t.at AND s.scope = ?4 || i.value
              GROUP BY 1`,
            parameters: ['day', fromDay, Number.MAX_SAFE_INTEGER, scopeOfLink(storeId, ''), ids],
          },
          {
            sql: `SELECT l.id AS key, r.total, r.positive FROM json_each(?2) i CROSS JOIN links l ON l.id = i.value
                LEFT JOIN review_counts r ON r.link_id = l.id
              WHERE l.store_id = ?1`,
            parameters: [storeId, ids],
          },
        )
      ).map(keyed) as [Keyed, Keyed]
      return linkStats(linkIds, rollups, reviews, await healthOf(thread, linkIds, fromMs))
    },

    healthOf: (linkIds, fromMs) => healthOf(thread, linkIds, fromMs),

    async healthDays(linkId, fromMs) {
      const [days, changes] = reading(() => [
        dayRows.all(linkId, Math.floor(fromMs / DAY_MS)),
        changeRows.all(linkId, fromMs),
      ])
      return toHealthDays(days!, changes!)
    },
  }
}

/** Maximum number of notes that a write adds to the rollups, because other writes of its group wait for it. */
const SUMMED_AT_ONCE = 250

/**
 * Adds the pending notes to the rollups, in steps. The next caller may have to add notes that arrive meanwhile.
 *
 * @returns how many notes it added
 */
export async function sumUp({ reader, writer }: Pick<Database, 'reader' | 'writer'>): Promise<number> {
  const newest = reading(() => reader.prepare('SELECT max(id) AS id FROM rollups_due').get())!['id']
  let left = Number(newest ?? 0)
  let summed = 0
  while (left > 0) {
    const done = await writer.write('sumUp', SUMMED_AT_ONCE, 'visible')
    summed += done
    left -= SUMMED_AT_ONCE
    if (done < SUMMED_AT_ONCE) break
  }
  return summed
}

const summed = `sum(s.calls) AS calls, sum_atomic(s.revenue_e18) AS revenue, sum(s.refunds) AS refunds,
  sum_atomic(s.refunded_e18) AS refunded, count_buyers(s.buyers) AS buyers`

/** The first or last time that has rollups of the unit `?1`, of transfers or channels. Each half is one index lookup. */
const extreme = (which: 'min' | 'max') => `(SELECT ${which}(at) FROM (
    SELECT ${which}(at) AS at FROM sales_rollups WHERE unit = ?1
    UNION ALL SELECT ${which}(at) FROM sales_rollups WHERE unit = 'channel_' || ?1))`

/** The days or hours from `?2` to before `?3` that have rollups. With this list, SQLite finds each row by time and scope. */
const times = `times (at) AS (
    SELECT max(?2, ${extreme('min')}) UNION ALL
    SELECT at + 1 FROM times WHERE at + 1 < ?3 AND at < ${extreme('max')})`

/** The stats of channels in the hours that a span touches, in buckets. */
function channelRollups(bucketMs: number | null, storeId: string, { linkId, fromMs, toMs }: Span): Statement {
  const key = bucketMs === null ? '0' : bucketMs === HOUR_MS ? 's.at' : 's.at / 24'
  return {
    sql: `WITH RECURSIVE ${times} SELECT ${key} AS key, ${summed}
      FROM times t CROSS JOIN sales_rollups s ON s.unit = 'channel_' || ?1 AND s.at = t.at AND s.scope = ?4
      WHERE t.at < ?3 GROUP BY 1`,
    parameters: ['hour', Math.floor(fromMs / HOUR_MS), Math.ceil(toMs / HOUR_MS), scopeOf(storeId, linkId)],
  }
}

function rollupsOf(
  unit: Unit,
  storeId: string,
  { linkId, fromMs, toMs }: Span,
  key: 'at' | '0' = '0',
): Statement {
  return {
    sql: `WITH RECURSIVE ${times} SELECT ${key === '0' ? '0' : 's.at'} AS key, ${summed}
      FROM times t CROSS JOIN sales_rollups s ON s.unit IN (?1, 'channel_' || ?1) AND s.at = t.at AND s.scope = ?4
      WHERE t.at < ?3 GROUP BY 1`,
    parameters: [
      unit,
      Math.floor(fromMs / units[unit]),
      Math.ceil(toMs / units[unit]),
      scopeOf(storeId, linkId),
    ],
  }
}

/**
 * Stats that are counted sale by sale. Sales by channels are counted by the hour, and a buyer who paid in both ways counts twice.
 */
function countedStats(thread: ReaderThread): Counted {
  return {
    async totals(storeId, span) {
      const read = await thread
        .of(storeId)
        .read(
          ...salesOf('0', storeId, span),
          paidBack('0', storeId, span),
          seenIn(DAY_MS, '0', storeId, span),
          channelRollups(null, storeId, span),
        )
      return totalsOf(read.map(keyed), 0)
    },

    async series(storeId, { bucketMs, ...span }) {
      const parts = (
        await thread
          .of(storeId)
          .read(
            ...salesOf(`created_at_ms / ${bucketMs}`, storeId, span),
            paidBack(`r.refunded_at_ms / ${bucketMs}`, storeId, span),
            seenIn(bucketMs, 'at', storeId, span),
            channelRollups(bucketMs, storeId, span),
          )
      ).map(keyed)
      return bucketsOf(bucketMs, parts, (key) => totalsOf(parts, key))
    },
  }
}

async function healthOf(
  thread: ReaderThread,
  linkIds: readonly string[],
  fromMs: number,
): Promise<Map<string, HealthStats>> {
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
  return healthByLink(linkIds, checks!, changes!)
}

/** An EVM address is the same in upper and lower case. Case matters in a Solana address, which is base58. */
const wallet = `CASE WHEN network LIKE 'eip155:%' THEN lower(buyer_wallet) ELSE buyer_wallet END`

const ofSpan = (storeId: string, { linkId, fromMs, toMs }: Span) => ({
  parameters: [storeId, fromMs, toMs, ...(linkId === undefined ? [] : [linkId])],
  // Reads a link by the link's own index, because the store's index has all sales of the store.
  seller: linkId === undefined ? 'store_id = ?1' : 'link_id = ?4 AND +store_id = ?1',
})

/** The number of sales and buyers at each price. SQL cannot add decimal strings, but there are few different prices. */
function salesOf(key: string, storeId: string, span: Span): Statement[] {
  const { parameters, seller } = ofSpan(storeId, span)
  const sold = `WITH sold AS (SELECT ${wallet} AS wallet, price_usd, created_at_ms FROM purchases
    WHERE ${seller} AND created_at_ms >= ?2 AND created_at_ms < ?3 AND status IN ('settled', 'delivered')
      AND payment_id NOT IN own_sales)`
  return [
    `${sold} SELECT ${key} AS key, price_usd, count(*) AS count FROM sold GROUP BY 1, 2`,
    `${sold} SELECT ${key} AS key, count(DISTINCT wallet) AS count FROM sold GROUP BY 1`,
  ].map((sql) => ({ sql, parameters }))
}

function paidBack(key: string, storeId: string, span: Span): Statement {
  const { parameters, seller } = ofSpan(storeId, span)
  return {
    sql: `SELECT ${key} AS key, price_usd, count(*) AS count
      FROM (SELECT payment_id AS id, refunded_at_ms FROM refunds INDEXED BY refunds_time
        WHERE refunded_at_ms >= ?2 AND refunded_at_ms < ?3) r
        CROSS JOIN purchases ON purchases.payment_id = r.id
      WHERE ${seller.replace('link_id', '+link_id')} AND purchases.payment_id NOT IN own_sales GROUP BY 1, 2`,
    parameters,
  }
}

function seenIn(
  bucketMs: number,
  key: 'at' | '0',
  storeId: string,
  { linkId, fromMs, toMs }: Span,
): Statement {
  const column = bucketMs === DAY_MS ? 'day' : 'hour'
  const from =
    linkId === undefined ? `store_${column}s v` : `links l JOIN link_${column}s v ON v.link_id = l.id`
  return {
    sql: `SELECT ${key === '0' ? '0' : `v.${column}`} AS key, sum(v.views) AS views, sum(v.challenges) AS challenges
      FROM ${from} WHERE store_id = ?1 AND v.${column} >= ?2 AND v.${column} <= ?3${linkId === undefined ? '' : ' AND l.id = ?4'}
      GROUP BY 1 HAVING sum(v.views) + sum(v.challenges) > 0`,
    parameters: [
      storeId,
      Math.floor(fromMs / bucketMs),
      Math.floor((toMs - 1) / bucketMs),
      ...(linkId === undefined ? [] : [linkId]),
    ],
  }
}

function soldOf(prices: readonly Row[] | undefined, buyers: readonly Row[] | undefined): Sales {
  return { ...sumOf(prices), buyers: Number(buyers?.[0]?.['count'] ?? 0) }
}

const sumOf = (prices: readonly Row[] = []) => ({
  purchases: prices.reduce((sum, row) => sum + Number(row['count']), 0),
  revenueE18: prices.reduce(
    (sum, row) => sum + parseAmount(String(row['price_usd']), 18) * BigInt(Number(row['count'])),
    0n,
  ),
})

/** @param parts prices, buyers, refunds, views and channels */
function totalsOf(parts: readonly Keyed[], key: number): Totals {
  const [prices, buyers, back, seen, channels] = parts.map((part) => part.get(key))
  const { purchases: refunds, revenueE18: refundedE18 } = sumOf(back)
  const views = seen?.[0]
  const sold = soldOf(prices, buyers)
  const byChannels = toTotals(channels?.[0], undefined)
  return {
    views: Number(views?.['views'] ?? 0),
    challenges: Number(views?.['challenges'] ?? 0),
    purchases: sold.purchases + byChannels.purchases,
    buyers: sold.buyers + byChannels.buyers,
    revenueE18: sold.revenueE18 + byChannels.revenueE18,
    refunds,
    refundedE18,
  }
}

/**
 * The stats of this many sales are cached for 1 ms, as in discovery.ts. So the stats of a million sales are counted again after 100
 * s.
 */
const COUNTED_PER_MS = 10
/** Stats of up to this many rows are counted at each request. */
const MANY_SALES = 1_000
const MAX_CACHED = 500
const MINUTE_MS = 60_000

/** Stats that may have to read every sale of a span. */
type Counted = Pick<Stats, 'totals' | 'series'>

/**
 * Caches the stats of a seller with many sales, so that the page of one seller does not delay the pages of others. Requests for the
 * same stats share one count. Periods that begin in the same minute count as the same.
 */
export function rarelyCounted(stats: Counted, clock: Clock): Counted {
  const cached = new LRUCache<string, object>({ max: MAX_CACHED, ttl: 1, ttlResolution: 0, perf: clock })
  const underWay = new Map<string, Promise<unknown>>()

  async function of<T extends object>(
    key: string,
    read: () => Promise<T>,
    salesIn: (response: T) => number,
  ): Promise<T> {
    const found = cached.get(key) ?? underWay.get(key)
    if (found !== undefined) return found as T | Promise<T>
    const reading = read().finally(() => underWay.delete(key))
    underWay.set(key, reading)
    const response = await reading
    const sales = salesIn(response)
    if (sales >= MANY_SALES) cached.set(key, response, { ttl: sales / COUNTED_PER_MS })
    return response
  }

  const keyOf = (what: string, storeId: string, { linkId, fromMs, toMs }: Span) =>
    `${what} ${storeId} ${linkId} ${Math.floor(fromMs / MINUTE_MS)} ${toMs}`
  const all = (some: readonly Sales[]) => some.reduce((sum, { purchases }) => sum + purchases, 0)

  return {
    totals: (storeId, span) =>
      of(
        keyOf('totals', storeId, span),
        () => stats.totals(storeId, span),
        ({ purchases }) => purchases,
      ),
    series: (storeId, span) =>
      of(keyOf(`by ${span.bucketMs}`, storeId, span), () => stats.series(storeId, span), all),
  }
}
