import type { Selectable } from 'kysely'
import type { Store } from '../../../core/domain/store.ts'
import type { StorePatch } from '../../../core/ports/store/stores.ts'
import type { StoreTable } from '../schema.ts'

/** The columns of a new store: what it has no word of yet is as the tables have it. */
export const toNewStoreColumns = (store: Omit<Store, 'payoutChangedAtMs' | 'socials'>) =>
  ({
    ...toStoreColumns(store),
    id: store.id,
    created_by: store.createdBy,
    created_at_ms: store.createdAtMs,
    updated_at_ms: store.updatedAtMs,
  }) as Omit<Selectable<StoreTable>, 'payout_changed_at_ms' | `payout_${string}_since_ms` | 'socials'>

/** A store's columns, written from the fields that are there. */
export function toStoreColumns(patch: StorePatch): Partial<Selectable<StoreTable>> {
  const columns = {
    username: patch.username,
    display_name: patch.displayName,
    bio: patch.bio,
    avatar_url: patch.avatarUrl,
    socials: patch.socials && JSON.stringify(patch.socials),
    developer_mode_enabled:
      patch.developerModeEnabled === undefined ? undefined : Number(patch.developerModeEnabled),
    payout_base: patch.payout?.base,
    payout_solana: patch.payout?.solana,
  }
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined))
}

export const toStore = (row: Selectable<StoreTable>): Store => ({
  id: row.id,
  username: row.username,
  displayName: row.display_name,
  bio: row.bio,
  avatarUrl: row.avatar_url,
  socials: JSON.parse(row.socials) as Store['socials'],
  developerModeEnabled: row.developer_mode_enabled === 1,
  createdBy: row.created_by as Store['createdBy'],
  payout: { base: row.payout_base, solana: row.payout_solana },
  payoutChangedAtMs: row.payout_changed_at_ms,
  createdAtMs: row.created_at_ms,
  updatedAtMs: row.updated_at_ms,
})
