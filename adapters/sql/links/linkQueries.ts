import type { Kysely } from 'kysely'
import type { LinkPatch } from '../../../core/ports/store/links.ts'
import type { Schema } from '../schema.ts'
import { FORMER_SLUGS_OF_A_LINK } from './linkReads.ts'
import { toLinkColumns } from './linkRows.ts'

/** How links are written, for whoever has a database to run it. */
export const linkQueries = (query: Kysely<Schema>) => ({
  change: (id: string, patch: LinkPatch, updatedAtMs: number) =>
    query
      .updateTable('links')
      .set((e) => ({ ...toLinkColumns(patch), updated_at_ms: updatedAtMs, version: e('version', '+', 1) }))
      .where('id', '=', id),

  deactivate: (id: string, updatedAtMs: number) =>
    query
      .updateTable('links')
      .set((e) => ({ is_active: 0, updated_at_ms: updatedAtMs, version: e('version', '+', 1) }))
      .where('id', '=', id)
      .where('is_active', '=', 1),

  /** Former slugs of a link, found by its store: so the primary key begins. */
  formerSlugs(id: string) {
    const storeOfLink = query.selectFrom('links').select('store_id').where('id', '=', id)
    const remove = query
      .deleteFrom('slug_redirects')
      .where('store_id', '=', storeOfLink)
      .where('link_id', '=', id)
    const newest = query
      .selectFrom('slug_redirects')
      .select('slug')
      .where('store_id', '=', storeOfLink)
      .where('link_id', '=', id)
      .orderBy('expires_at_ms', 'desc')
      .limit(FORMER_SLUGS_OF_A_LINK)
    return { remove, removeOlder: remove.where('slug', 'not in', newest) }
  },
})
