import type { ApiKey } from '../../../core/domain/store.ts'
import { tooManyKeys } from '../../../core/ports/refusals.ts'
import type { ApiKeys } from '../../../core/ports/store/stores.ts'
import type { ApiKeyTable } from '../sql/schema.ts'
import { type CallsOf, locked, type Reads, row, type Steps, type Tx } from './transaction.ts'

export const apiKeyWrites = {
  *add(tx: Tx, key: ApiKey, maxActive: number): Steps<void> {
    yield* tx.one`SELECT id FROM stores WHERE id = ${key.storeId} ${locked}`
    const active = yield* tx.one<{ count: number }>`
      SELECT count(*) AS count FROM api_keys WHERE store_id = ${key.storeId} AND is_active = 1`
    if (active!.count >= maxActive) throw tooManyKeys(maxActive)
    yield* insertApiKey(tx, key)
  },

  /** A key that was already revoked keeps its time of revocation. */
  *revoke(tx: Tx, storeId: string, id: string, atMs: number): Steps<ApiKey | undefined> {
    const revoked = yield* tx.one<ApiKeyTable>`
      UPDATE api_keys SET is_active = 0, revoked_at_ms = coalesce(revoked_at_ms, ${atMs})
      WHERE store_id = ${storeId} AND id = ${id} RETURNING *`
    return revoked && toApiKey(revoked)
  },

  *touch(tx: Tx, id: string, atMs: number): Steps<void> {
    yield* tx.run`UPDATE api_keys SET last_used_at_ms = ${atMs} WHERE id = ${id}`
  },
}

export function* insertApiKey(tx: Tx, key: ApiKey): Steps<void> {
  const columns = {
    id: key.id,
    store_id: key.storeId,
    name: key.name,
    key_prefix: key.keyPrefix,
    key_hash: key.keyHash,
    is_active: Number(key.isActive),
    last_used_at_ms: key.lastUsedAtMs,
    revoked_at_ms: key.revokedAtMs,
    created_at_ms: key.createdAtMs,
  }
  yield* tx.run`INSERT INTO api_keys ${row(columns)}`
}

/** API keys. The database stores only their HMACs. */
export function createApiKeys(
  { apiKeys }: { readonly apiKeys: CallsOf<typeof apiKeyWrites> },
  reads: Reads,
): ApiKeys {
  const isTouchDue = occasionally()
  return {
    add: apiKeys.add,
    revoke: apiKeys.revoke,

    async touch(id, atMs) {
      if (isTouchDue(id, atMs)) await apiKeys.touch(id, atMs)
    },

    async ofStore(storeId) {
      const rows = await reads.all<ApiKeyTable>`
        SELECT * FROM api_keys WHERE store_id = ${storeId} ORDER BY created_at_ms, id`
      return rows.map(toApiKey)
    },

    async byHash(keyHash) {
      const found = await reads.one<ApiKeyTable>`SELECT * FROM api_keys WHERE key_hash = ${keyHash}`
      return found && toApiKey(found)
    },
  }
}

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

/** Shortest time between two writes of a key's `lastUsedAt`, in ms. */
const TOUCH_EVERY_MS = 60_000
const MAX_REMEMBERED_KEYS = 10_000

/** Returns a function that decides whether the use of a key should be written now. */
function occasionally(): (id: string, atMs: number) => boolean {
  const touchedAtMs = new Map<string, number>()
  return (id, atMs) => {
    const last = touchedAtMs.get(id)
    if (last !== undefined && atMs - last < TOUCH_EVERY_MS) return false
    if (touchedAtMs.size >= MAX_REMEMBERED_KEYS) touchedAtMs.clear()
    touchedAtMs.set(id, atMs)
    return true
  }
}
