import type { Kysely } from 'kysely'
import type { StoreId } from '../../../core/domain/link.ts'
import type { Schema } from '../schema.ts'

/** What the port BrowserSessions asks a database for, for whoever has one to run it. The operator's sessions have no store. */
export function browserSessionQueries(query: Kysely<Schema>) {
  const isOf = (storeId: StoreId | null) => (storeId === null ? 'is' : '=')
  /** The one that was seen last comes first. */
  const ofHolder = (storeId: StoreId | null) =>
    query
      .selectFrom('browser_sessions')
      .where('store_id', isOf(storeId), storeId)
      .orderBy('last_seen_at_ms', 'desc')
      .orderBy('id')

  return {
    ofHolder,

    /** Removes all but those that were seen last. */
    removeBeyond: (storeId: StoreId | null, most: number) =>
      query
        .deleteFrom('browser_sessions')
        .where('store_id', isOf(storeId), storeId)
        .where('id', 'not in', ofHolder(storeId).select('id').limit(most)),

    end: (storeId: StoreId | null, id: string) =>
      query.deleteFrom('browser_sessions').where('id', '=', id).where('store_id', isOf(storeId), storeId),

    touch: (id: string, lastSeenAtMs: number, endsAtMs: number) =>
      query
        .updateTable('browser_sessions')
        .set({ last_seen_at_ms: lastSeenAtMs, ends_at_ms: endsAtMs })
        .where('id', '=', id),
  }
}
