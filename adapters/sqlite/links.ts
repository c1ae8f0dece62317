import type { SQLInputValue } from 'node:sqlite'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Link, LinkState, LinkType } from '../../core/domain/link.ts'
import type { ImportedLink, LinkQuery, Links, ListedLink } from '../../core/ports/links.ts'
import { cursorAt, readCursor } from '../../core/ports/purchases.ts'
import { originTaken, slugTaken, tooManyLinks } from '../../core/ports/refusals.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'
import { ConstraintError, reading } from './failure.ts'
import { HEALTH_KEPT_MS, noteChecks } from './healthChecks.ts'
import { toHealthEvent, toLink, toLinkColumns, toServedLink } from './linkRows.ts'
import type { ReaderThread } from './readerThread.ts'
import type { LinkTable } from './schema.ts'
import type { Statement } from './statement.ts'
import { tellOfLink } from './webhooks/telling.ts'

/** How long a former slug or username goes on answering. */
export const REDIRECT_MS = 30 * 24 * 60 * 60 * 1000

/** Whoever renames a link every minute does not fill the table: of older slugs nothing is kept. */
const FORMER_SLUGS_OF_A_LINK = 10

const servedColumns = 'l.*, s.username, s.payout_base, s.payout_solana'

/** Links whose documents are read in one turn of the event loop; each may have two of 16 kB. */
const READ_IN_A_TURN = 10

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
      .where(
        (e) =>
          e
            .selectFrom('links')
            .select((c) => c.fn.countAll<number>().as('count'))
            .where('store_id', '=', columns.store_id)
            .where('is_active', '=', 1),
        '<',
        maxActive,
      )
    return writer.write('run', compiled(query.insertInto('links').columns(names).expression(row)))
  }

  async function storeCalled(username: string, nowMs: number) {
    const current = await query
      .selectFrom('stores')
      .select(['id', 'username'])
      .where('username', '=', username)
      .executeTakeFirst()
    if (current !== undefined) return current
    return query
      .selectFrom('username_redirects as r')
      .innerJoin('stores as s', 's.id', 'r.store_id')
      .select(['s.id', 's.username'])
      .where('r.username', '=', username)
      .where('r.expires_at_ms', '>', nowMs)
      .executeTakeFirst()
  }

  /** Former slugs of a link, found by its store: so the primary key begins. */
  const formerSlugs = (id: string) => {
    const storeOfLink = query.selectFrom('links').select('store_id').where('id', '=', id)
    return {
      newest: query
        .selectFrom('slug_redirects')
        .select('slug')
        .where('store_id', '=', storeOfLink)
        .where('link_id', '=', id)
        .orderBy('expires_at_ms', 'desc')
        .limit(FORMER_SLUGS_OF_A_LINK),
      remove: query
        .deleteFrom('slug_redirects')
        .where('store_id', '=', storeOfLink)
        .where('link_id', '=', id),
    }
  }

  const served = (username: string, slug: string) => {
    const row = reading(() => servedRow.get(username, slug))
    return row && toServedLink(row)
  }

  return {
    async create(link, maxActive = Number.MAX_SAFE_INTEGER) {
      const { id, storeId, createdAtMs, updatedAtMs } = link
      const columns = {
        ...toLinkColumns({ ...link, suspension: null }),
        id,
        store_id: storeId,
        created_at_ms: createdAtMs,
        updated_at_ms: updatedAtMs,
        version: 1,
      } as LinkTable
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
      const { newest, remove } = formerSlugs(id)
      const forgetOlder = remove.where('slug', 'not in', newest)
      const change = query
        .updateTable('links')
        .set((e) => ({
          ...toLinkColumns(patch),
          updated_at_ms: updatedAtMs,
          version: e('version', '+', 1),
        }))
        .where('id', '=', id)
        .$if(ofVersion !== undefined, (q) => q.where('version', '=', ofVersion!))
        .returningAll()
      const rename = patch.slug === undefined ? [] : [compiled(keepOldSlug), compiled(forgetOlder)]
      const steps = [...rename, compiled(change)]
      const results = await writer.write('runAll', steps).catch(refused(patch.slug))
      const row = results.at(-1)!.rows[0]
      return row && toLink(row)
    },

    async deactivate(id, updatedAtMs) {
      const change = query
        .updateTable('links')
        .set((e) => ({ is_active: 0, updated_at_ms: updatedAtMs, version: e('version', '+', 1) }))
        .where('id', '=', id)
        .where('is_active', '=', 1)
      const [changed] = await writer.write('runAll', [compiled(change), compiled(formerSlugs(id).remove)])
      return changed!.changes > 0
    },

    async find(id) {
      const row = await query.selectFrom('links').selectAll().where('id', '=', id).executeTakeFirst()
      return row && toLink(row)
    },

    async page(storeId, wanted) {
      const way = wanted.words === undefined || wanted.words.length === 0 ? thread : slow
      const [rows = []] = await way.of(storeId).read(pageOf(storeId, wanted))
      const links: Link[] = []
      for (const row of rows.slice(0, wanted.limit)) {
        if (links.length % READ_IN_A_TURN === READ_IN_A_TURN - 1) await nextTurn()
        links.push(toLink(row))
      }
      const last = rows.length > wanted.limit ? links.at(-1) : undefined
      return { links, nextCursor: last === undefined ? null : cursorAt(last.createdAtMs, last.id) }
    },

    async countOf(storeId) {
      const { count } = await query
        .selectFrom('links')
        .select((e) => e.fn.countAll<number>().as('count'))
        .where('store_id', '=', storeId)
        .where('is_active', '=', 1)
        .executeTakeFirstOrThrow()
      return count
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

    async titlesOf(ids) {
      if (ids.length === 0) return new Map()
      const rows = await query.selectFrom('links').select(['id', 'title']).where('id', 'in', ids).execute()
      return new Map(rows.map(({ id, title }) => [id, title]))
    },

    async listedOf(storeId, { limit, cursor }) {
      const from = cursor === undefined ? undefined : readCursor(cursor)
      const [rows = []] = await thread.of(storeId).read({
        sql: `SELECT id, title, description, slug, price, link_type, created_at_ms FROM links INDEXED BY links_pages
          WHERE store_id = ? AND is_active = 1 AND is_public = 1 AND is_stealth = 0 AND (created_at_ms, id) < (?, ?)
          ORDER BY created_at_ms DESC, id DESC LIMIT ?`,
        parameters: [storeId, from?.atMs ?? Number.MAX_SAFE_INTEGER, from?.id ?? '', limit + 1],
      })
      const links = rows.slice(0, limit).map((row): ListedLink => {
        const text = (name: string) => String(row[name])
        const [id, title, description] = [text('id'), text('title'), text('description')]
        const [slug, price, linkType] = [text('slug'), text('price'), text('link_type') as LinkType]
        return { id, title, description, slug, price, linkType }
      })
      const last = rows.length > limit ? rows[limit - 1] : undefined
      const nextCursor =
        last === undefined ? null : cursorAt(Number(last['created_at_ms']), String(last['id']))
      return { links, nextCursor }
    },

    async served(username, slug) {
      return served(username, slug)
    },

    async allServed() {
      const rows = await query
        .selectFrom('links as l')
        .innerJoin('stores as s', 's.id', 'l.store_id')
        .selectAll('l')
        .select(['s.username', 's.payout_base', 's.payout_solana'])
        .where('l.is_active', '=', 1)
        .orderBy('l.id')
        .execute()
      return rows.map(toServedLink)
    },

    async redirectOf(username, slug, nowMs) {
      const store = await storeCalled(username, nowMs)
      if (store === undefined) return undefined
      if (served(store.username, slug) !== undefined) {
        return store.username === username ? undefined : { username: store.username, slug }
      }
      const target = await query
        .selectFrom('slug_redirects as r')
        .innerJoin('links as l', 'l.id', 'r.link_id')
        .select('l.slug')
        .where('r.store_id', '=', store.id)
        .where('r.slug', '=', slug)
        .where('r.expires_at_ms', '>', nowMs)
        .where('l.is_active', '=', 1)
        // A link that became stealth has no address that a former one may lead to.
        .where('l.is_stealth', '=', 0)
        .executeTakeFirst()
      return target && { username: store.username, slug: target.slug }
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
      const change = query
        .updateTable('links')
        .set((e) => ({
          ...toLinkColumns({ suspension }),
          updated_at_ms: atMs,
          version: e('version', '+', 1),
        }))
        .where('id', '=', id)
      const told = () => tellOfLink(id, { kind: 'link.suspended', detail: suspension!, atMs })
      const begins = suspension === null ? [] : [compiled(count), told()]
      await writer.write('runAll', [...begins, compiled(change)])
    },

    async suspensionCount(id, sinceMs) {
      const { count } = await query
        .selectFrom('link_suspensions')
        .select((e) => e.fn.countAll<number>().as('count'))
        .where('link_id', '=', id)
        .where('at_ms', '>=', sinceMs)
        .executeTakeFirstOrThrow()
      return count
    },

    async addHealthEvent(event) {
      const { linkId, atMs, kind, ok, status, latencyMs, detail, isAskedBySeller = false } = event
      if (kind === 'probe' && !isAskedBySeller)
        return void (await writer.write('runAll', noteChecks([event])))
      const add = query.insertInto('health_events').values({
        link_id: linkId,
        at_ms: atMs,
        kind,
        ok: Number(ok),
        status,
        latency_ms: latencyMs === null ? null : Math.round(latencyMs),
        detail,
        asked_by_seller: Number(isAskedBySeller),
      })
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

const states: Readonly<Record<LinkState, string>> = {
  suspended: 'suspension IS NOT NULL',
  stealth: 'suspension IS NULL AND is_stealth = 1',
  public: 'suspension IS NULL AND is_stealth = 0 AND is_public = 1',
  unlisted: 'suspension IS NULL AND is_stealth = 0 AND is_public = 0',
}

const tagLines = '(SELECT group_concat(value, char(10)) FROM json_each(tags))'

/** One row more than the page, which says whether there is another one. */
function pageOf(
  storeId: string,
  { limit, cursor, linkType, state, isPaid, words = [] }: LinkQuery,
): Statement {
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
  if (linkType !== undefined) need('link_type = ?', linkType)
  if (state !== undefined) need(states[state])
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
