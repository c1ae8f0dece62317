import type { SQLInputValue } from 'node:sqlite'
import { POPULAR_MS, UPTIME_MS } from '../../../core/domain/popularity.ts'
import type { Discovery, DiscoveryQuery, DiscoverySort } from '../../../core/ports/store/discovery.ts'
import { DAY_MS, HOUR_MS } from '../../../core/ports/store/stats.ts'
import { popularityFrom, toFoundLink } from '../sql/discoveryRows.ts'
import type { Database } from './connect.ts'
import { reading } from './failure.ts'
import type { ReaderThread } from './reader/readerThread.ts'
import { compiled, type Row, type Statement } from './statement.ts'
import { sumUp } from './stats.ts'

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

/** The marketplace in SQLite. A separate thread reads it from rows that triggers update. */
export function createDiscovery(
  database: Pick<Database, 'reader' | 'query' | 'writer'>,
  thread: Pick<ReaderThread, 'read'>,
): Discovery {
  const { reader, query, writer } = database
  const changedRows = reader.prepare(`SELECT link_id, changed FROM link_stats INDEXED BY link_stats_changed
    WHERE changed <> counted AND (counted_at_ms + sales / ${COUNTED_PER_MS} <= ?1 OR counted_at_ms > ?1)
    LIMIT ${RECOUNTED}`)
  const popularRows = reader.prepare(`SELECT link_id, changed FROM link_stats INDEXED BY link_stats_popular
    WHERE popularity > 0 AND counted_at_ms < ? LIMIT ${RECOUNTED}`)

  return {
    async search(wanted) {
      if (wanted.words?.length === 0) return { links: [], total: 0 }
      const found = conditionsOf(wanted)
      if (wanted.sort !== 'relevance') {
        const [[counted], rows] = (await thread.read(countOf(found), pageOf(found, wanted))) as [[Row], Row[]]
        return { links: rows.map(toFoundLink), total: Number(counted['total']) }
      }
      const [[counted]] = (await thread.read(countOf(found))) as [[Row]]
      const total = Number(counted['total'])
      const sort = total > MAX_RANKED ? 'popular' : 'relevance'
      const [rows] = (await thread.read(pageOf(found, { ...wanted, sort }))) as [Row[]]
      return { links: rows.map(toFoundLink), total }
    },

    async recount(nowMs) {
      // Marks the links that were sold since the last count.
      await sumUp(database)
      // These queries run on the main thread, because they read the same few index pages each time. Only the counts are slow.
      const [changed, popular] = reading(() => [changedRows.all(nowMs), popularRows.all(nowMs - RECOUNT_MS)])
      const due = new Map(
        [...popular!, ...changed!].map((row) => [String(row['link_id']), Number(row['changed'])]),
      )
      if (due.size === 0) return 0
      // Links are counted one at a time, so that a search waits for no more than one link's sales.
      const counted: Row[] = []
      for (const id of due.keys()) counted.push((await thread.read(demandOf(id, nowMs)))[0]![0]!)
      const steps = [...due].map(([id, seen], i) => {
        const row = counted[i]!
        const number = (name: string) => Number(row[name] ?? 0)
        return compiled(
          query
            .updateTable('link_stats')
            .set({ counted: seen, counted_at_ms: nowMs, sales: number('sales'), buyers: number('buyers') })
            .set({ popularity: popularityFrom(row) })
            .where('link_id', '=', id),
        )
      })
      await writer.write('runAll', steps, 'visible')
      return due.size
    },
  }
}

interface Conditions {
  from(sort: DiscoverySort): string
  readonly where: string
  readonly parameters: readonly SQLInputValue[]
}

function conditionsOf(wanted: DiscoveryQuery): Conditions {
  const { words, linkType, minPrice, maxPrice, chain, tag, username, isFree, minRating } = wanted
  const conditions: string[] = []
  const parameters: SQLInputValue[] = []
  const need = (condition: string, ...values: SQLInputValue[]) => {
    conditions.push(condition)
    parameters.push(...values)
  }
  // A word in quotes is never an operator or a column name (sqlite.org/fts5.html#fts5_strings).
  if (words !== undefined) need('listing_words MATCH ?', words.map(prefixOf).join(' AND '))
  if (linkType !== undefined) need('l.is_standard = ?', Number(linkType === 'standard'))
  if (minPrice !== undefined) need('l.price >= CAST(? AS REAL)', minPrice)
  if (maxPrice !== undefined) need('l.price <= CAST(? AS REAL)', maxPrice)
  if (isFree !== undefined) need(isFree ? 'l.price = 0' : 'l.price > 0')
  if (chain !== undefined) need(chain === 'solana' ? 'l.paid_on_solana = 1' : 'l.paid_on_base = 1')
  if (minRating !== undefined) need('l.rating >= ?', minRating)
  if (username !== undefined) need('l.store_id = (SELECT id FROM stores WHERE username = ?)', username)
  if (tag !== undefined) need('l.id IN (SELECT listing_id FROM listing_tags WHERE tag = ?)', tag)
  // If a store or a tag is given, its few links are found first and then sorted. Other filters apply while SQLite reads in the sort
  // order.
  const isAlongOrder = words === undefined && username === undefined && tag === undefined
  return {
    from: (sort) => {
      if (words !== undefined) return 'listing_words w CROSS JOIN listings l ON l.id = w.rowid'
      return isAlongOrder ? `listings l INDEXED BY ${indexes[sort]}` : 'listings l'
    },
    where: conditions.length === 0 ? 'true' : conditions.join(' AND '),
    parameters,
  }
}

/** A single letter must match a whole word, because too many words begin with one. */
const prefixOf = (word: string) => `"${word.replaceAll('"', '""')}"${word.length > 1 ? '*' : ''}`

const countOf = ({ from, where, parameters }: Conditions): Statement => {
  const isWordsOnly = where === 'listing_words MATCH ?'
  return {
    sql: `SELECT count(*) AS total FROM ${isWordsOnly ? 'listing_words' : from('price_asc')} WHERE ${where}`,
    parameters,
  }
}

const indexes: Readonly<Record<DiscoverySort, string>> = {
  relevance: 'listings_popular',
  popular: 'listings_popular',
  newest: 'listings_newest',
  price_asc: 'listings_cheapest',
  price_desc: 'listings_dearest',
}

const newestFirst = 'l.created_at_ms DESC, l.id DESC'

/** Titles weigh more than tags, names and descriptions. */
const orders: Readonly<Record<DiscoverySort, string>> = {
  relevance: `bm25(listing_words, 8.0, 1.0, 4.0, 2.0), l.popularity DESC, ${newestFirst}`,
  popular: `l.popularity DESC, ${newestFirst}`,
  newest: newestFirst,
  price_asc: `l.price, ${newestFirst}`,
  price_desc: `l.price DESC, ${newestFirst}`,
}

/** Selects the page's links first, and reads the listing columns only for these. */
function pageOf({ from, where, parameters }: Conditions, { sort, limit, offset }: DiscoveryQuery): Statement {
  return {
    sql: `WITH found AS MATERIALIZED
        (SELECT l.id FROM ${from(sort)} WHERE ${where} ORDER BY ${orders[sort]} LIMIT ? + 0 OFFSET ?),
        page AS MATERIALIZED (SELECT id, row_number() OVER () AS place FROM found)
      SELECT k.id, k.title, k.description, k.slug, k.price, k.price_max, k.access, k.link_type, k.methods, k.tags, k.created_at_ms,
        s.username, s.display_name, s.avatar_url,
        coalesce(c.buyers, 0) AS buyers, coalesce(r.total, 0) AS total, coalesce(r.positive, 0) AS positive
      FROM page CROSS JOIN listings g ON g.id = page.id CROSS JOIN links k ON k.id = g.link_id CROSS JOIN stores s ON s.id = k.store_id
        LEFT JOIN link_stats c ON c.link_id = k.id LEFT JOIN review_counts r ON r.link_id = k.id
      ORDER BY page.place`,
    parameters: [...parameters, limit, offset],
  }
}

/**
 * Buyers of a link by transfers and channels. Calls that were charged 0 and calls by the store's own wallets do not count, because
 * they cost the seller nothing. Own wallets are those that sign in to the store and those that it is paid to.
 */
const demandOf = (linkId: string, nowMs: number): Statement => ({
  sql: `WITH own AS MATERIALIZED (
      SELECT w.address FROM links l JOIN store_wallets w ON w.store_id = l.store_id WHERE l.id = ?1
      UNION SELECT lower(s.payout_base) FROM links l JOIN stores s ON s.id = l.store_id
        WHERE l.id = ?1 AND s.payout_base IS NOT NULL
      UNION SELECT s.payout_solana FROM links l JOIN stores s ON s.id = l.store_id
        WHERE l.id = ?1 AND s.payout_solana IS NOT NULL),
    sold AS (
      SELECT CASE WHEN network LIKE 'eip155:%' THEN lower(buyer_wallet) ELSE buyer_wallet END AS wallet, created_at_ms
      FROM purchases WHERE link_id = ?1 AND status IN ('settled', 'delivered') AND amount_atomic <> '0'
      UNION ALL SELECT k.payer, s.at * ${HOUR_MS} FROM channel_sales s CROSS JOIN channel_configs k
      WHERE s.link_id = ?1 AND k.id = s.id),
    others AS (SELECT * FROM sold WHERE wallet NOT IN own)
    SELECT count(*) AS sales, count(DISTINCT wallet) AS buyers, max(created_at_ms) AS last_sale_at_ms,
      count(DISTINCT CASE WHEN created_at_ms >= ?2 THEN wallet END) AS payers,
      (SELECT 1.0 - 1.0 * sum(failed_probes) / nullif(sum(probes), 0) FROM link_days WHERE link_id = ?1 AND day > ?3) AS uptime,
      (SELECT total FROM review_counts WHERE link_id = ?1) AS total,
      (SELECT positive FROM review_counts WHERE link_id = ?1) AS positive
    FROM others`,
  parameters: [linkId, nowMs - POPULAR_MS, Math.floor((nowMs - UPTIME_MS) / DAY_MS)],
})
