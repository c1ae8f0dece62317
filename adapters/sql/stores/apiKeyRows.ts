import type { ApiKey } from '../../../core/domain/store.ts'
import type { ApiKeyTable } from '../schema.ts'

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

export const toApiKey = (row: ApiKeyTable): ApiKey => ({
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
