import type { SQLInputValue } from 'node:sqlite'
import { LRUCache } from 'lru-cache'
import type { ServedLink } from '../../../core/domain/link.ts'
import type { LinkQuery, Links } from '../../../core/ports/store/links.ts'
import { readCursor } from '../../../core/ports/store/purchases.ts'
import { stateConditions, toKeptLink, toLink, toServedLink } from '../repositories/links/linkRows.ts'
import { cutPage, type Row, readInBatches } from '../sql/rows.ts'
import type { Database } from './connect.ts'
import { reading } from './failure.ts'
import type { ReaderThread } from './reader/readerThread.ts'
import type { Statement } from './statement.ts'

const servedColumns = 'l.*, s.username, s.payout_base, s.payout_solana'

/** Maximum number of stores of which a link is remembered, so that cached links of a store can share their equal strings. */
const MAX_REMEMBERED_STORES = 1_000

/**
 * The reads of links that differ from PostgreSQL's.
 *
 * @param slow the thread for reads that compare the words of all links of a store
 */
export function createLinkReads(
  { reader }: Pick<Database, 'reader'>,
  thread: ReaderThread,
  slow: ReaderThread,
): Pick<Links, 'served' | 'allServed' | 'page'> {
  // The statement joins two index lookups, because an OR over both columns would use neither index.
  const servedRow = reader.prepare(`
    SELECT ${servedColumns} FROM stores s JOIN links l ON l.store_id = s.id
      WHERE s.username = ?1 AND l.slug = ?2 AND l.is_active = 1 AND l.is_stealth = 0
    UNION ALL
    SELECT ${servedColumns} FROM stores s JOIN links l ON l.store_id = s.id
      WHERE s.username = ?1 AND l.private_slug = ?2 AND l.is_active = 1 AND l.is_stealth = 1
    LIMIT 1`)

  /** A recently read link of each store. */
  const neighbours = new LRUCache<string, ServedLink>({ max: MAX_REMEMBERED_STORES })

  return {
    async served(username, slug) {
      const row = reading(() => servedRow.get(username, slug))
      if (row === undefined) return undefined
      const link = toKeptLink(row, neighbours.get(username))
      neighbours.set(username, link)
      return link
    },

    async allServed() {
      const all = `SELECT ${servedColumns} FROM links l JOIN stores s ON s.id = l.store_id
        WHERE l.is_active = 1 ORDER BY l.id`
      return reading(() => reader.prepare(all).all()).map(toServedLink)
    },

    async page(storeId, wanted) {
      const by = wanted.words === undefined || wanted.words.length === 0 ? thread : slow
      const [rows = []] = await by.of(storeId).read(pageOf(storeId, wanted))
      const { shown, nextCursor } = cutPage(rows, wanted.limit, placeOf)
      return { links: await readInBatches(shown, toLink), nextCursor }
    },
  }
}

const placeOf = (row: Row): readonly [number, string] => [Number(row['created_at_ms']), String(row['id'])]

const tagLines = '(SELECT group_concat(value, char(10)) FROM json_each(tags))'

/** Reads one row more than the page. The extra row shows that there is another page. */
function pageOf(storeId: string, { limit, cursor, state, isPaid, words = [] }: LinkQuery): Statement {
  const conditions = ['store_id = ?', 'is_active = 1']
  const parameters: SQLInputValue[] = [storeId]
  const need = (condition: string, ...values: SQLInputValue[]) => {
    conditions.push(condition)
    parameters.push(...values)
  }
  if (cursor !== undefined) {
    const { atMs, id } = readCursor(cursor)
    need('(created_at_ms, id) < (?, ?)', atMs, id)
  }
  if (state !== undefined) need(stateConditions[state])
  if (isPaid !== undefined) need(`price ${isPaid ? 'GLOB' : 'NOT GLOB'} '*[1-9]*'`)
  for (const word of words)
    need(`instr(folded(concat_ws(char(10), title, slug, url, ${tagLines})), folded(?)) > 0`, word)
  return {
    sql: `SELECT * FROM links INDEXED BY links_pages WHERE ${conditions.join(' AND ')}
      ORDER BY created_at_ms DESC, id DESC LIMIT ? + 0`,
    parameters: [...parameters, limit + 1],
  }
}
