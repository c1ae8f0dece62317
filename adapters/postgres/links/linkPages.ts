import { type Kysely, sql } from 'kysely'
import type { Link, ServedLink } from '../../../core/domain/link.ts'
import { foldedText, type LinkQuery } from '../../../core/ports/store/links.ts'
import { readCursor } from '../../../core/ports/store/purchases.ts'
import { inTurns } from '../../sql/inTurns.ts'
import { activeLinks } from '../../sql/links/linkReads.ts'
import { stateConditions, toLink, toServedLink } from '../../sql/links/linkRows.ts'
import type { Schema } from '../../sql/schema.ts'

/** Links whose words are compared, between two of which calls are answered. */
const COMPARED_IN_A_TURN = 250
/** Links that are asked for at once. */
const SERVED_AT_ONCE = 500

interface Place {
  readonly atMs: number
  readonly id: string
}

/** Links of a store that come after a place in its list, the newest first. */
export function activeOf(query: Kysely<Schema>, storeId: string, after: Place | undefined) {
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

/** The first `limit` of the links that are looked for. */
export async function linksOfPage(
  query: Kysely<Schema>,
  storeId: string,
  { limit, cursor, state, isPaid, words = [] }: LinkQuery,
): Promise<Link[]> {
  const wanted = (after: Place | undefined) =>
    activeOf(query, storeId, after)
      .$if(state !== undefined, (q) => q.where(sql.raw<boolean>(stateConditions[state!])))
      .$if(isPaid !== undefined, (q) => q.where('price', isPaid ? '~' : '!~', '[1-9]'))
  const from = cursor === undefined ? undefined : readCursor(cursor)
  if (words.length === 0) return inTurns(await wanted(from).selectAll().limit(limit).execute(), toLink)

  const ids = await withWords(wanted, from, words.map(foldedText), limit)
  if (ids.length === 0) return []
  const rows = await activeOf(query, storeId, undefined).selectAll().where('id', 'in', ids).execute()
  return inTurns(rows, toLink)
}

/**
 * Ids of the links that have every word. They are compared here: how letters are folded in a database depends on how it was
 * built, and what it was made with.
 */
async function withWords(
  wanted: (after: Place | undefined) => ReturnType<typeof activeOf>,
  from: Place | undefined,
  words: readonly string[],
  limit: number,
): Promise<string[]> {
  const found: string[] = []
  for (let after = from; ; ) {
    const rows = await wanted(after)
      .select(['id', 'title', 'slug', 'url', 'tags', 'created_at_ms'])
      .limit(COMPARED_IN_A_TURN)
      .execute()
    for (const { id, title, slug, url, tags } of rows) {
      const text = foldedText([title, slug, url, ...(JSON.parse(tags) as string[])].join('\n'))
      if (words.every((word) => text.includes(word))) found.push(id)
      if (found.length === limit) return found
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < COMPARED_IN_A_TURN) return found
    after = { atMs: last.created_at_ms, id: last.id }
  }
}

/** Every active link with its store. Read in parts: no result and no turn of the event loop has all of them. */
export async function allServedLinks(query: Kysely<Schema>): Promise<ServedLink[]> {
  const links: ServedLink[] = []
  for (let after = ''; ; ) {
    const rows = await activeLinks(query).where('l.id', '>', after).limit(SERVED_AT_ONCE).execute()
    links.push(...(await inTurns(rows, toServedLink)))
    if (rows.length < SERVED_AT_ONCE) return links
    after = rows.at(-1)!.id
  }
}
