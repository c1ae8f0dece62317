import { sql, type Transaction } from 'kysely'
import type { Link } from '../../../core/domain/link.ts'
import { originTaken, slugTaken, tooManyLinks } from '../../../core/ports/refusals.ts'
import type { Links } from '../../../core/ports/store/links.ts'
import { readCursor } from '../../../core/ports/store/purchases.ts'
import { cutPage } from '../../sql/cutPage.ts'
import { HEALTH_KEPT_MS } from '../../sql/links/checkRows.ts'
import { linkQueries } from '../../sql/links/linkQueries.ts'
import { linkReads, REDIRECT_MS } from '../../sql/links/linkReads.ts'
import {
  toHealthEvent,
  toHealthEventColumns,
  toLink,
  toListedLink,
  toNewLinkColumns,
  toServedLink,
} from '../../sql/links/linkRows.ts'
import type { LinkTable, Schema } from '../../sql/schema.ts'
import type { Database } from '../database.ts'
import { ConstraintError } from '../failure.ts'
import { holdStore } from '../stores/holdStore.ts'
import { transact } from '../transact.ts'
import { noteChecks } from './healthChecks.ts'
import { activeOf, allServedLinks, linksOfPage } from './linkPages.ts'

/** Links in PostgreSQL. */
export function createLinks(database: Pick<Database, 'query'>): Links {
  const { query } = database

  const served: Links['served'] = async (username, slug) => {
    // Two lookups by index, joined: an OR over both columns would not use either index's condition.
    const columns = sql`l.*, s.username, s.payout_base, s.payout_solana`
    const { rows } = await sql<object>`
      SELECT ${columns} FROM stores s JOIN links l ON l.store_id = s.id
        WHERE s.username = ${username} AND l.slug = ${slug} AND l.is_active = 1 AND l.is_stealth = 0
      UNION ALL
      SELECT ${columns} FROM stores s JOIN links l ON l.store_id = s.id
        WHERE s.username = ${username} AND l.private_slug = ${slug} AND l.is_active = 1 AND l.is_stealth = 1
      LIMIT 1`.execute(query)
    return rows[0] && toServedLink(rows[0])
  }

  return {
    ...linkReads(query, served),
    served,
    allServed: () => allServedLinks(query),

    async create(link, maxActive) {
      const { storeId } = link
      const created = transact(database, async (transaction) => {
        if (maxActive !== undefined) {
          await holdStore(transaction, storeId)
          const count = await linkReads(transaction, served).countOf(storeId)
          if (count >= maxActive) throw tooManyLinks(maxActive)
        }
        return transaction
          .insertInto('links')
          .values(toNewLinkColumns(link))
          .returningAll()
          .executeTakeFirstOrThrow()
      })
      return toLink(await created.catch(refused(link.slug)))
    },

    async update(id, patch, updatedAtMs, ofVersion) {
      const updated = transact(database, async (transaction) => {
        const before = await transaction
          .selectFrom('links')
          .select(['store_id', 'slug', 'is_active', 'is_stealth', 'version'])
          .where('id', '=', id)
          .forNoKeyUpdate()
          .executeTakeFirst()
        if (before === undefined || (ofVersion !== undefined && before.version !== ofVersion))
          return undefined
        const isLeft = patch.slug !== undefined && patch.slug !== before.slug
        if (isLeft && before.is_active === 1 && before.is_stealth === 0)
          await keepSlug(transaction, { id, ...before }, updatedAtMs)
        const change = linkQueries(transaction).change(id, patch, updatedAtMs)
        return change.returningAll().executeTakeFirst()
      })
      const row = await updated.catch(refused(patch.slug))
      return row && toLink(row)
    },

    async deactivate(id, updatedAtMs) {
      return transact(database, async (transaction) => {
        const queries = linkQueries(transaction)
        const { numUpdatedRows } = await queries.deactivate(id, updatedAtMs).executeTakeFirst()
        await queries.formerSlugs(id).remove.execute()
        return numUpdatedRows > 0n
      })
    },

    async page(storeId, { limit, ...wanted }) {
      const rows = await linksOfPage(query, storeId, { ...wanted, limit: limit + 1 })
      const { shown, nextCursor } = cutPage(rows, limit, ({ createdAtMs, id }) => [createdAtMs, id])
      return { links: shown, nextCursor }
    },

    async importedFrom(storeId, document) {
      const rows = await query
        .selectFrom('links')
        .select(['id', 'title', 'slug', 'price', 'origin_key', 'origin_operation'])
        .where('store_id', '=', storeId)
        .where('origin_document', '=', document)
        .where('is_active', '=', 1)
        .execute()
      return rows.map(({ origin_key: key, origin_operation: operation, ...link }) => ({
        ...link,
        origin: { document, key: key!, operation: operation! },
      }))
    },

    async listedOf(storeId, { limit, cursor }) {
      const rows = await activeOf(query, storeId, cursor === undefined ? undefined : readCursor(cursor))
        .select(['id', 'title', 'description', 'slug', 'price', 'link_type', 'created_at_ms'])
        .where('is_public', '=', 1)
        .where('is_stealth', '=', 0)
        .limit(limit + 1)
        .execute()
      const { shown, nextCursor } = cutPage(rows, limit, (row) => [row.created_at_ms, row.id])
      return { links: shown.map(toListedLink), nextCursor }
    },

    async setSuspension(id, suspension, atMs) {
      await transact(database, async (transaction) => {
        const before = await transaction
          .selectFrom('links')
          .select('suspension')
          .where('id', '=', id)
          .forNoKeyUpdate()
          .executeTakeFirst()
        if (before === undefined) return
        if (suspension !== null && before.suspension === null) {
          await transaction.insertInto('link_suspensions').values({ link_id: id, at_ms: atMs }).execute()
          await sql`SELECT tell_of_link('link.suspended', ${id}, NULL, ${JSON.stringify(suspension)}, ${atMs})`.execute(
            transaction,
          )
        }
        await linkQueries(transaction).change(id, { suspension }, atMs).execute()
      })
    },

    async addHealthEvent(event) {
      const { linkId, atMs, kind, isAskedBySeller = false } = event
      await transact(database, async (transaction) => {
        if (kind === 'probe' && !isAskedBySeller) return noteChecks(transaction, [event])
        await transaction.insertInto('health_events').values(toHealthEventColumns(event)).execute()
        await transaction
          .deleteFrom('health_events')
          .where('link_id', '=', linkId)
          .where('at_ms', '<', atMs - HEALTH_KEPT_MS)
          .execute()
      })
    },

    async healthEvents(id, limit) {
      // The latest check stands by itself, unless it failed or passed after one that had.
      const { rows } = await sql<Record<string, never>>`
        SELECT * FROM (SELECT id, at_ms, link_id, kind, ok, status, latency_ms, detail, asked_by_seller
          FROM health_events WHERE link_id = ${id} ORDER BY at_ms DESC, id DESC LIMIT ${limit}) kept
        UNION ALL
        SELECT 0, at_ms, link_id, 'probe', ok, status, latency_ms, detail, 0 FROM link_checks c
          WHERE link_id = ${id} AND at_ms IS NOT NULL AND NOT EXISTS (SELECT 1 FROM health_events h
            WHERE h.link_id = c.link_id AND h.at_ms = c.at_ms AND h.kind = 'probe' AND h.asked_by_seller = 0)
        ORDER BY at_ms DESC, id DESC LIMIT ${limit}`.execute(query)
      return rows.map(toHealthEvent)
    },
  }
}

async function keepSlug(
  transaction: Transaction<Schema>,
  { id, store_id, slug }: Pick<LinkTable, 'id' | 'store_id' | 'slug'>,
  atMs: number,
): Promise<void> {
  await transaction
    .insertInto('slug_redirects')
    .values({ store_id, slug, link_id: id, expires_at_ms: atMs + REDIRECT_MS })
    .onConflict((c) =>
      c.columns(['store_id', 'slug']).doUpdateSet((e) => ({
        link_id: e.ref('excluded.link_id'),
        expires_at_ms: e.ref('excluded.expires_at_ms'),
      })),
    )
    .execute()
  await linkQueries(transaction).formerSlugs(id).removeOlder.execute()
}

const refused =
  (slug: Link['slug'] | undefined) =>
  (error: unknown): never => {
    if (!(error instanceof ConstraintError)) throw error
    if (error.constraint === 'links_origin') throw originTaken({ cause: error })
    if (error.constraint === 'links_slug' || error.constraint === 'links_private_slug')
      throw slugTaken(slug, { cause: error })
    throw error
  }
