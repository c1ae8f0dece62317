import { type RawBuilder, sql } from 'kysely'
import { POPULAR_MS, UPTIME_MS } from '../../../core/domain/popularity.ts'
import { storeUnavailable } from '../../../core/ports/refusals.ts'
import type {
  Discovery,
  DiscoveryQuery,
  DiscoverySort,
  FoundLinks,
} from '../../../core/ports/store/discovery.ts'
import { DAY_MS, HOUR_MS } from '../../../core/ports/store/stats.ts'
import { boundedQueue } from '../../boundedQueue.ts'
import { popularityFrom, toFoundLink } from '../sql/discoveryRows.ts'
import type { Row } from '../sql/rows.ts'
import type { Database } from './database.ts'
import { sumUp } from './rollups.ts'

/**
 * Maximum number of links that a search ranks by their words. With more matches, the rank says little and takes longer than the
 * rest of the query.
 */
const MAX_RANKED = 2_000
/** Number of links that a step recounts. */
const RECOUNTED = 50
/** How often a link's popularity is recounted, in ms, because older sales stop counting. */
const RECOUNT_MS = 24 * 60 * 60 * 1000
/**
 * After a recount, the next one of the same link comes at least 1 ms later per this many sales. So a link with a million sales is
 * recounted every 100 s instead of with each sale.
 */
const COUNTED_PER_MS = 10
/** Maximum number of searches that wait for others. */
const MAX_WAITING = 200

/**
 * The marketplace in PostgreSQL. It is read from rows that triggers update.
 *
 * @param searches maximum number of searches that run at the same time
 */
export function createDiscovery(database: Database, searches: number): Discovery {
  const { query } = database
  const inTurn = boundedQueue(searches, MAX_WAITING, () => storeUnavailable('too many requests for the same'))

  async function search(wanted: DiscoveryQuery): Promise<FoundLinks> {
    const where = conditionsOf(wanted)
    const counted = await sql<{ total: number }>`
        SELECT count(*) AS total FROM listings l WHERE ${where}`.execute(query)
    const total = counted.rows[0]!.total
    const sort = wanted.sort === 'relevance' && total > MAX_RANKED ? 'popular' : wanted.sort
    // Selects the page's links first, and reads the listing columns only for these.
    const { rows } = await sql<Row>`
        WITH page AS MATERIALIZED (
          SELECT l.id, row_number() OVER (ORDER BY ${orderOf(sort, wanted)}) AS place FROM listings l WHERE ${where}
          ORDER BY ${orderOf(sort, wanted)} LIMIT ${wanted.limit} OFFSET ${wanted.offset})
        SELECT k.id, k.title, k.description, k.slug, k.price, k.price_max, k.access, k.link_type, k.methods, k.tags, k.created_at_ms,
          s.username, s.display_name, s.avatar_url,
          coalesce(c.buyers, 0) AS buyers, coalesce(r.total, 0) AS total, coalesce(r.positive, 0) AS positive
        FROM page JOIN listings g ON g.id = page.id JOIN links k ON k.id = g.link_id JOIN stores s ON s.id = k.store_id
          LEFT JOIN link_stats c ON c.link_id = k.id LEFT JOIN review_counts r ON r.link_id = k.id
        ORDER BY page.place`.execute(query)
    return { links: rows.map(toFoundLink), total }
  }

  return {
    async search(wanted) {
      if (wanted.words?.length === 0) return { links: [], total: 0 }
      return inTurn(() => search(wanted))
    },

    async recount(nowMs) {
      // Marks the links that were sold since the last count.
      await sumUp(database)
      const { rows: due } = await sql<{ link_id: string; changed: number }>`
        (SELECT link_id, changed FROM link_stats
          WHERE changed <> counted AND (counted_at_ms + sales / ${sql.lit(COUNTED_PER_MS)} <= ${nowMs} OR counted_at_ms > ${nowMs})
          LIMIT ${sql.lit(RECOUNTED)})
        UNION
        (SELECT link_id, changed FROM link_stats WHERE popularity > 0 AND counted_at_ms < ${nowMs - RECOUNT_MS}
          LIMIT ${sql.lit(RECOUNTED)})`.execute(query)
      for (const { link_id: id, changed } of due) {
        const { rows } = await demandOf(id, nowMs).execute(query)
        const row = rows[0]!
        await sql`
          UPDATE link_stats SET counted = ${changed}, counted_at_ms = ${nowMs}, sales = ${row['sales'] ?? 0},
            buyers = ${row['buyers'] ?? 0}, popularity = ${popularityFrom(row)}
          WHERE link_id = ${id}`.execute(query)
      }
      return due.length
    },
  }
}

function conditionsOf(wanted: DiscoveryQuery): RawBuilder<unknown> {
  const { words, linkType, minPrice, maxPrice, chain, tag, username, isFree, minRating } = wanted
  const conditions: RawBuilder<unknown>[] = [sql`true`]
  if (words !== undefined) conditions.push(sql`l.words @@ words_wanted(${words}::text[])`)
  if (linkType !== undefined) conditions.push(sql`l.is_standard = ${Number(linkType === 'standard')}`)
  if (minPrice !== undefined) conditions.push(sql`l.price >= ${minPrice}::double precision`)
  if (maxPrice !== undefined) conditions.push(sql`l.price <= ${maxPrice}::double precision`)
  if (isFree !== undefined) conditions.push(isFree ? sql`l.price = 0` : sql`l.price > 0`)
  if (chain !== undefined)
    conditions.push(chain === 'solana' ? sql`l.paid_on_solana = 1` : sql`l.paid_on_base = 1`)
  if (minRating !== undefined) conditions.push(sql`l.rating >= ${minRating}`)
  if (username !== undefined)
    conditions.push(sql`l.store_id = (SELECT id FROM stores WHERE username = ${username})`)
  if (tag !== undefined)
    conditions.push(sql`l.id IN (SELECT listing_id FROM listing_tags WHERE tag = ${tag})`)
  return sql.join(conditions, sql` AND `)
}

const newestFirst = sql`l.created_at_ms DESC, l.id DESC`

function orderOf(sort: DiscoverySort, { words = [] }: DiscoveryQuery): RawBuilder<unknown> {
  switch (sort) {
    case 'relevance':
      // The weights are those of description, seller, tags and title.
      return sql`ts_rank('{0.125, 0.25, 0.5, 1}', l.words, words_wanted(${words}::text[])) DESC, l.popularity DESC, ${newestFirst}`
    case 'popular':
      return sql`l.popularity DESC, ${newestFirst}`
    case 'newest':
      return newestFirst
    case 'price_asc':
      return sql`l.price, ${newestFirst}`
    case 'price_desc':
      return sql`l.price DESC, ${newestFirst}`
  }
}

/**
 * Buyers of a link by transfers and channels. Calls that were charged 0 and calls by the store's own wallets do not count, because
 * they cost the seller nothing. Own wallets are those that sign in to the store and those that it is paid to.
 */
const demandOf = (linkId: string, nowMs: number): RawBuilder<Row> => sql<Row>`
  WITH sold AS (
    SELECT wallet_of(u.network, u.buyer_wallet) AS wallet, u.created_at_ms FROM purchases u
    WHERE u.link_id = ${linkId} AND u.status IN ('settled', 'delivered') AND u.amount_atomic <> '0'
    UNION ALL SELECT k.payer, s.at * ${sql.lit(HOUR_MS)} FROM channel_sales s JOIN channel_configs k ON k.id = s.id
    WHERE s.link_id = ${linkId}),
  others AS (
    SELECT wallet, created_at_ms FROM sold
    WHERE NOT is_own_wallet((SELECT store_id FROM links WHERE id = ${linkId}), wallet))
  SELECT count(*) AS sales, count(DISTINCT wallet) AS buyers, max(created_at_ms) AS last_sale_at_ms,
    count(DISTINCT wallet) FILTER (WHERE created_at_ms >= ${nowMs - POPULAR_MS}) AS payers,
    (SELECT (1.0 - 1.0 * sum(failed_probes) / nullif(sum(probes), 0))::double precision FROM link_days
      WHERE link_id = ${linkId} AND day > ${Math.floor((nowMs - UPTIME_MS) / DAY_MS)}) AS uptime,
    (SELECT total FROM review_counts WHERE link_id = ${linkId}) AS total,
    (SELECT positive FROM review_counts WHERE link_id = ${linkId}) AS positive
  FROM others`
