import type { Kysely, SelectQueryBuilder } from 'kysely'
import type { Links } from '../../../core/ports/store/links.ts'
import type { Schema } from '../schema.ts'
import { toLink } from './linkRows.ts'

/** How long a former slug or username goes on answering. */
export const REDIRECT_MS = 30 * 24 * 60 * 60 * 1000

/** Whoever renames a link every minute does not fill the table: of older slugs nothing is kept. */
export const FORMER_SLUGS_OF_A_LINK = 10

export const countOfActive = (query: Kysely<Schema>, storeId: string) =>
  query
    .selectFrom('links')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('store_id', '=', storeId)
    .where('is_active', '=', 1)

/** Every active link with its store, for `toServedLink`. */
export const activeLinks = (query: Kysely<Schema>) =>
  query
    .selectFrom('links as l')
    .innerJoin('stores as s', 's.id', 'l.store_id')
    .selectAll('l')
    .select(['s.username', 's.payout_base', 's.payout_solana'])
    .where('l.is_active', '=', 1)
    .orderBy('l.id')

type RowsOf = <Row>(many: SelectQueryBuilder<Schema, 'links', Row>) => Promise<Row[]>

/**
 * How links that are named are read, in any SQL.
 *
 * @param rowsOf reads many of them at once
 */
export function linkReads(
  query: Kysely<Schema>,
  served: Links['served'],
  rowsOf: RowsOf = (many) => many.execute(),
): Pick<Links, 'find' | 'findAll' | 'countOf' | 'titlesOf' | 'redirectOf' | 'suspensionCount'> {
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

  return {
    async find(id) {
      const row = await query.selectFrom('links').selectAll().where('id', '=', id).executeTakeFirst()
      return row && toLink(row)
    },

    async findAll(ids) {
      if (ids.length === 0) return new Map()
      const rows = await rowsOf(query.selectFrom('links').selectAll().where('id', 'in', ids))
      return new Map(rows.map((row) => [row.id, toLink(row)]))
    },

    async countOf(storeId) {
      return (await countOfActive(query, storeId).executeTakeFirstOrThrow()).count
    },

    async titlesOf(ids) {
      if (ids.length === 0) return new Map()
      const rows = await rowsOf(query.selectFrom('links').select(['id', 'title']).where('id', 'in', ids))
      return new Map(rows.map(({ id, title }) => [id, title]))
    },

    async redirectOf(username, slug, nowMs) {
      const store = await storeCalled(username, nowMs)
      if (store === undefined) return undefined
      if ((await served(store.username, slug)) !== undefined) {
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

    async suspensionCount(id, sinceMs) {
      const { count } = await query
        .selectFrom('link_suspensions')
        .select((e) => e.fn.countAll<number>().as('count'))
        .where('link_id', '=', id)
        .where('at_ms', '>=', sinceMs)
        .executeTakeFirstOrThrow()
      return count
    },
  }
}
