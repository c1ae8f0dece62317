import type { SQLInputValue } from 'node:sqlite'
import type { Compilable } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { Link, ServedLink } from '../../core/domain/link.ts'
import { originTaken, slugTaken, tooManyLinks } from '../../core/ports/refusals.ts'
import type { ImportedLink, LinkQuery, Links } from '../../core/ports/store/links.ts'
import { readCursor } from '../../core/ports/store/purchases.ts'
import { cutPage } from '../sql/cutPage.ts'
import { inTurns } from '../sql/inTurns.ts'
import { HEALTH_KEPT_MS } from '../sql/links/checkRows.ts'
import { linkQueries } from '../sql/links/linkQueries.ts'
import { activeLinks, countOfActive, linkReads, REDIRECT_MS } from '../sql/links/linkReads.ts'
import {
  stateConditions,
  toHealthEvent,
  toHealthEventColumns,
  toKeptLink,
  toLink,
  toListedLink,
  toNewLinkColumns,
  toServedLink,
} from '../sql/links/linkRows.ts'
import type { Row } from '../sql/row.ts'
import type { LinkTable } from '../sql/schema.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'
import { ConstraintError, reading } from './failure.ts'
import { noteChecks } from './healthChecks.ts'
import type { ReaderThread } from './reader/readerThread.ts'
import type { Statement } from './statement.ts'
import { tellOfLink } from './webhooks/telling.ts'

const servedColumns = 'l.*, s.username, s.payout_base, s.payout_solana'

/** Of these, links that are kept share what is the same for all of a store. */
const STORES_ASKED_LATELY = 1_000

/** Links in SQLite. What looks through those of a store does so on a thread of its own; words are looked for in all of them. */
export function createLinks(
  { reader, query, writer }: Database,
  thread: ReaderThread,
  slow: ReaderThread,
): Links {
  // Two lookups by index, joined: an OR over both columns would not use either index's condition.
  const servedRow = reader.prepare(`
    SELECT ${servedColumns} FROM stores s JOIN links l ON l.store_id = s.id
      WHERE s.username = ?1 AND l.slug = ?2 AND l.is_active = 1 AND l.is_stealth = 0
    UNION ALL
    SELECT ${servedColumns} FROM stores s JOIN links l ON l.store_id = s.id
      WHERE s.username = ?1 AND l.private_slug = ?2 AND l.is_active = 1 AND l.is_stealth = 1
    LIMIT 1`)

  // The latest check stands by itself, unless it failed or passed after one that had.
  const eventRows = reader.prepare(`
    SELECT * FROM (SELECT id, at_ms, link_id, kind, ok, status, latency_ms, detail, asked_by_seller FROM health_events
      WHERE link_id = ?1 ORDER BY at_ms DESC, id DESC LIMIT ?2)
    UNION ALL
    SELECT 0, at_ms, link_id, 'probe', ok, status, latency_ms, detail, 0 FROM link_checks c
      WHERE link_id = ?1 AND at_ms IS NOT NULL AND NOT EXISTS (SELECT 1 FROM health_events h
        WHERE h.link_id = ?1 AND h.at_ms = c.at_ms AND h.kind = 'probe' AND h.asked_by_seller = 0)
    ORDER BY at_ms DESC, id DESC LIMIT ?2`)

  const createOne = (columns: LinkTable, maxActive: number) => {
    const names = Object.keys(columns) as (keyof LinkTable)[]
    const row = query
      .selectNoFrom((e) => names.map((name) => e.val(columns[name]).as(name)))
      .where(countOfActive(query, columns.store_id), '<', maxActive)
    return writer.write('run', compiled(query.insertInto('links').columns(names).expression(row)))
  }

  const queries = linkQueries(query)

  /** A link of each store that was asked lately. */
  const neighbours = new LRUCache<string, ServedLink>({ max: STORES_ASKED_LATELY })

  const served = (username: string, slug: string) => {
    const row = reading(() => servedRow.get(username, slug))
    if (row === undefined) return undefined
    const link = toKeptLink(row, neighbours.get(username))
    neighbours.set(username, link)
    return link
  }

  return {
    ...linkReads(
      query,
      async (username, slug) => served(username, slug),
      async <Found>(many: Compilable<Found>) => (await thread.read(compiled(many)))[0] as Found[],
    ),

    async create(link, maxActive = Number.MAX_SAFE_INTEGER) {
      const columns = toNewLinkColumns(link)
      const { changes } = await createOne(columns, maxActive).catch(refused(link.slug))
      if (changes > 0) return toLink(columns)
      throw tooManyLinks(maxActive)
    },

    async update(id, patch, updatedAtMs, ofVersion) {
      const keepOldSlug = query
        .insertInto('slug_redirects')
        .columns(['store_id', 'slug', 'link_id', 'expires_at_ms'])
        .expression((e) =>
          e
            .selectFrom('links')
            .select((c) => ['store_id', 'slug', 'id', c.val(updatedAtMs + REDIRECT_MS).as('expires_at_ms')])
            .where('id', '=', id)
            .where('is_active', '=', 1)
            .where('is_stealth', '=', 0)
            .where('slug', '<>', patch.slug ?? '')
            .$if(ofVersion !== undefined, (q) => q.where('version', '=', ofVersion!)),
        )
        .onConflict((c) =>
          c.columns(['store_id', 'slug']).doUpdateSet((e) => ({
            link_id: e.ref('excluded.link_id'),
            expires_at_ms: e.ref('excluded.expires_at_ms'),
          })),
        )
      const change = queries
        .change(id, patch, updatedAtMs)
        .$if(ofVersion !== undefined, (q) => q.where('version', '=', ofVersion!))
        .returningAll()
      const rename =
        patch.slug === undefined ? [] : [compiled(keepOldSlug), compiled(queries.formerSlugs(id).removeOlder)]
      const steps = [...rename, compiled(change)]
      const results = await writer.write('runAll', steps).catch(refused(patch.slug))
      const row = results.at(-1)!.rows[0]
      return row && toLink(row)
    },

    async deactivate(id, updatedAtMs) {
      const steps = [queries.deactivate(id, updatedAtMs), queries.formerSlugs(id).remove]
      const [changed] = await writer.write('runAll', steps.map(compiled))
      return changed!.changes > 0
    },

    async page(storeId, wanted) {
      const way = wanted.words === undefined || wanted.words.length === 0 ? thread : slow
      const [rows = []] = await way.of(storeId).read(pageOf(storeId, wanted))
      const { shown, nextCursor } = cutPage(rows, wanted.limit, placeOf)
      return { links: await inTurns(shown, toLink), nextCursor }
    },

    async importedFrom(storeId, document) {
      const [rows = []] = await thread.of(storeId).read({
        sql: `SELECT id, title, slug, price, origin_document, origin_key, origin_operation FROM links INDEXED BY links_origin
          WHERE store_id = ? AND origin_document = ? AND is_active = 1`,
        parameters: [storeId, document],
      })
      return rows.map((row): ImportedLink => {
        const text = (name: string) => String(row[name])
        const origin = { document, key: text('origin_key'), operation: text('origin_operation') }
        return { id: text('id'), title: text('title'), slug: text('slug'), price: text('price'), origin }
      })
    },

    async listedOf(storeId, { limit, cursor }) {
      const from = cursor === undefined ? undefined : readCursor(cursor)
      const [rows = []] = await thread.of(storeId).read({
        sql: `SELECT id, title, description, slug, price, link_type, created_at_ms FROM links INDEXED BY links_pages
          WHERE store_id = ? AND is_active = 1 AND is_public = 1 AND is_stealth = 0 AND (created_at_ms, id) < (?, ?)
          ORDER BY created_at_ms DESC, id DESC LIMIT ?`,
        parameters: [storeId, from?.atMs ?? Number.MAX_SAFE_INTEGER, from?.id ?? '', limit + 1],
      })
      const { shown, nextCursor } = cutPage(rows, limit, placeOf)
      return { links: shown.map(toListedLink), nextCursor }
    },

    async served(username, slug) {
      return served(username, slug)
    },

    async allServed() {
      return (await activeLinks(query).execute()).map(toServedLink)
    },

    async setSuspension(id, suspension, atMs) {
      const count = query
        .insertInto('link_suspensions')
        .columns(['link_id', 'at_ms'])
        .expression((e) =>
          e
            .selectFrom('links')
            .select((c) => ['id', c.val(atMs).as('at_ms')])
            .where('id', '=', id)
            .where('suspension', 'is', null),
        )
      const change = queries.change(id, { suspension }, atMs)
      const told = () => tellOfLink(id, { kind: 'link.suspended', detail: suspension!, atMs })
      const begins = suspension === null ? [] : [compiled(count), told()]
      await writer.write('runAll', [...begins, compiled(change)])
    },

    async addHealthEvent(event) {
      const { linkId, atMs, kind, isAskedBySeller = false } = event
      if (kind === 'probe' && !isAskedBySeller)
        return void (await writer.write('runAll', noteChecks([event])))
      const add = query.insertInto('health_events').values(toHealthEventColumns(event))
      const forget = query
        .deleteFrom('health_events')
        .where('link_id', '=', linkId)
        .where('at_ms', '<', atMs - HEALTH_KEPT_MS)
      await writer.write('runAll', [compiled(add), compiled(forget)])
    },

    async healthEvents(id, limit) {
      return reading(() => eventRows.all(id, limit)).map(toHealthEvent)
    },
  }
}

const placeOf = (row: Row): readonly [number, string] => [Number(row['created_at_ms']), String(row['id'])]

const tagLines = '(SELECT group_concat(value, char(10)) FROM json_each(tags))'

/** One row more than the page, which says whether there is another one. */
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
      ORDER BY created_at_ms DESC, id DESC LIMIT ?`,
    parameters: [...parameters, limit + 1],
  }
}

const refused = (slug: Link['slug'] | undefined) => (error: unknown) => {
  if (error instanceof ConstraintError && error.message.includes('links.origin_'))
    throw originTaken({ cause: error })
  if (!(error instanceof ConstraintError) || !error.message.includes('links.slug')) throw error
  throw slugTaken(slug, { cause: error })
}
