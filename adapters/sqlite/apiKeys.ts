import type { ApiKey } from '../../core/domain/store.ts'
import { tooManyKeys } from '../../core/ports/refusals.ts'
import type { ApiKeys } from '../../core/ports/stores.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'
import { reading } from './failure.ts'
import type { ApiKeyTable } from './schema.ts'

/** How exact `lastUsedAt` is: one write per key in this time. */
const TOUCH_EVERY_MS = 60_000

/** API keys in SQLite: their HMACs, never the keys. */
export function createApiKeys({ reader, query, writer }: Database): ApiKeys {
  const byHashRow = reader.prepare('SELECT * FROM api_keys WHERE key_hash = ?')
  const touchedAtMs = new Map<string, number>()

  return {
    async add(key, maxActive) {
      const columns = toApiKeyColumns(key)
      const names = Object.keys(columns) as (keyof ApiKeyTable)[]
      const row = query
        .selectNoFrom((e) => names.map((name) => e.val(columns[name]).as(name)))
        .where(
          (e) =>
            e
              .selectFrom('api_keys')
              .select((c) => c.fn.countAll<number>().as('count'))
              .where('store_id', '=', key.storeId)
              .where('is_active', '=', 1),
          '<',
          maxActive,
        )
      const insert = query.insertInto('api_keys').columns(names).expression(row)
      const { changes } = await writer.write('run', compiled(insert))
      if (changes > 0) return
      throw tooManyKeys(maxActive)
    },

    async ofStore(storeId) {
      const rows = await query
        .selectFrom('api_keys')
        .selectAll()
        .where('store_id', '=', storeId)
        .orderBy('created_at_ms')
        .orderBy('id')
        .execute()
      return rows.map(toApiKey)
    },

    async byHash(keyHash) {
      const row = reading(() => byHashRow.get(keyHash))
      return row && toApiKey(row as unknown as ApiKeyTable)
    },

    async revoke(storeId, id, atMs) {
      const change = query
        .updateTable('api_keys')
        .set((e) => ({ is_active: 0, revoked_at_ms: e.fn.coalesce('revoked_at_ms', e.val(atMs)) }))
        .where('store_id', '=', storeId)
        .where('id', '=', id)
        .returningAll()
      const row = (await writer.write('run', compiled(change))).rows[0]
      return row && toApiKey(row as unknown as ApiKeyTable)
    },

    async touch(id, atMs) {
      const last = touchedAtMs.get(id)
      if (last !== undefined && atMs - last < TOUCH_EVERY_MS) return
      if (touchedAtMs.size >= 10_000) touchedAtMs.clear()
      touchedAtMs.set(id, atMs)
      const change = query.updateTable('api_keys').set({ last_used_at_ms: atMs }).where('id', '=', id)
      await writer.write('run', compiled(change), 'visible')
    },
  }
}

export const toApiKeyColumns = (key: ApiKey): ApiKeyTable => ({
  id: key.id,
  store_id: key.storeId,
  name: key.name,
  key_prefix: key.keyPrefix,
  key_hash: key.keyHash,
  is_active: Number(key.isActive),
  last_used_at_ms: key.lastUsedAtMs,
  revoked_at_ms: key.revokedAtMs,
  created_at_ms: key.createdAtMs,
})

const toApiKey = (row: ApiKeyTable): ApiKey => ({
  id: row.id,
  storeId: row.store_id,
  name: row.name,
  keyPrefix: row.key_prefix,
  keyHash: row.key_hash,
  isActive: row.is_active === 1,
  lastUsedAtMs: row.last_used_at_ms,
  revokedAtMs: row.revoked_at_ms,
  createdAtMs: row.created_at_ms,
})
