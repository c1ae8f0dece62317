import { type Kysely, sql } from 'kysely'
import type { Link, ServedLink } from '../../../core/domain/link.ts'
import { foldedText, type LinkQuery, type Links } from '../../../core/ports/store/links.ts'
import { readCursor } from '../../../core/ports/store/purchases.ts'
import { stateConditions, toLink, toServedLink } from '../repositories/links/linkRows.ts'
import type { Reads } from '../repositories/transaction.ts'
import { cutPage, readInBatches } from '../sql/rows.ts'
import type { Schema } from '../sql/schema.ts'

/** Links whose words are compared per turn of the event loop. The process serves calls between two turns. */
const COMPARED_PER_PAGE = 250
/** Links that a query reads. */
const SERVED_AT_ONCE = 500

/** The reads of links that differ from SQLite's. */
export function createLinkReads(
  query: Kysely<Schema>,
  reads: Reads,
): Pick<Links, 'served' | 'allServed' | 'page'> {
  return {
    async served(username, slug) {
      // The statement joins two index lookups, because an OR over both columns would use neither index.
      const found = await reads.one<object>`
        SELECT l.*, s.username, s.payout_base, s.payout_solana FROM stores s JOIN links l ON l.store_id = s.id
          WHERE s.username = ${username} AND l.slug = ${slug} AND l.is_active = 1 AND l.is_stealth = 0
        UNION ALL
        SELECT l.*, s.username, s.payout_base, s.payout_solana FROM stores s JOIN links l ON l.store_id = s.id
          WHERE s.username = ${username} AND l.private_slug = ${slug} AND l.is_active = 1 AND l.is_stealth = 1
        LIMIT 1`
      return found && toServedLink(found)
    },

    /** Reads in parts, so that neither a query nor a turn of the event loop has to handle all links. */
    async allServed() {
      const links: ServedLink[] = []
      for (let after = ''; ; ) {
        const rows = await reads.all<{ id: string }>`
          SELECT l.*, s.username, s.payout_base, s.payout_solana FROM links l JOIN stores s ON s.id = l.store_id
          WHERE l.is_active = 1 AND l.id > ${after} ORDER BY l.id LIMIT ${SERVED_AT_ONCE}`
        links.push(...(await readInBatches(rows, toServedLink)))
        if (rows.length < SERVED_AT_ONCE) return links
        after = rows.at(-1)!.id
      }
    },

    async page(storeId, { limit, ...wanted }) {
      const rows = await linksOfPage(query, storeId, { ...wanted, limit: limit + 1 })
      const { shown, nextCursor } = cutPage(rows, limit, ({ createdAtMs, id }) => [createdAtMs, id])
      return { links: shown, nextCursor }
    },
  }
}

interface Position {
  readonly atMs: number
  readonly id: string
}

/** Links of a store after a position in its list, newest first. */
function activeOf(query: Kysely<Schema>, storeId: string, after: Position | undefined) {
  return query
    .selectFrom('links')
    .where('store_id', '=', storeId)
    .where('is_active', '=', 1)
    .$if(after !== undefined, (q) =>
      q.where(sql<boolean>`(created_at_ms, id) < (${after!.atMs}, ${after!.id})`),
    )
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
}

/** The first `limit` of the matching links. */
async function linksOfPage(
  query: Kysely<Schema>,
  storeId: string,
  { limit, cursor, state, isPaid, words = [] }: LinkQuery,
): Promise<Link[]> {
  const wanted = (after: Position | undefined) =>
    activeOf(query, storeId, after)
      .$if(state !== undefined, (q) => q.where(sql.raw<boolean>(stateConditions[state!])))
      .$if(isPaid !== undefined, (q) => q.where('price', isPaid ? '~' : '!~', '[1-9]'))
  const from = cursor === undefined ? undefined : readCursor(cursor)
  if (words.length === 0) return readInBatches(await wanted(from).selectAll().limit(limit).execute(), toLink)

  const ids = await withWords(wanted, from, words.map(foldedText), limit)
  if (ids.length === 0) return []
  const rows = await activeOf(query, storeId, undefined).selectAll().where('id', 'in', ids).execute()
  return readInBatches(rows, toLink)
}

/**
 * Ids of the links that contain every word. This process compares the words, because case folding in PostgreSQL depends on the
 * server's build and the database's locale.
 */
async function withWords(
  wanted: (after: Position | undefined) => ReturnType<typeof activeOf>,
  from: Position | undefined,
  words: readonly string[],
  limit: number,
): Promise<string[]> {
  const found: string[] = []
  for (let after = from; ; ) {
    const rows = await wanted(after)
      .select(['id', 'title', 'slug', 'url', 'tags', 'created_at_ms'])
      .limit(COMPARED_PER_PAGE)
      .execute()
    for (const { id, title, slug, url, tags } of rows) {
      const text = foldedText([title, slug, url, ...(JSON.parse(tags) as string[])].join('\n'))
      if (words.every((word) => text.includes(word))) found.push(id)
      if (found.length === limit) return found
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < COMPARED_PER_PAGE) return found
    after = { atMs: last.created_at_ms, id: last.id }
  }
}
