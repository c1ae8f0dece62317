import type { Kysely } from 'kysely'
import type { Schema } from '../schema.ts'

/** What the port ApiKeys asks a database for, for whoever has one to run it. */
export const apiKeyQueries = (query: Kysely<Schema>) => ({
  countOfActive: (storeId: string) =>
    query
      .selectFrom('api_keys')
      .select((e) => e.fn.countAll<number>().as('count'))
      .where('store_id', '=', storeId)
      .where('is_active', '=', 1),

  ofStore: (storeId: string) =>
    query
      .selectFrom('api_keys')
      .selectAll()
      .where('store_id', '=', storeId)
      .orderBy('created_at_ms')
      .orderBy('id'),

  /** Answers with the key; one that was revoked before keeps that time. */
  revoke: (storeId: string, id: string, atMs: number) =>
    query
      .updateTable('api_keys')
      .set((e) => ({ is_active: 0, revoked_at_ms: e.fn.coalesce('revoked_at_ms', e.val(atMs)) }))
      .where('store_id', '=', storeId)
      .where('id', '=', id)
      .returningAll(),

  touch: (id: string, atMs: number) =>
    query.updateTable('api_keys').set({ last_used_at_ms: atMs }).where('id', '=', id),
})
