import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** When a store's payout wallets were last changed. Never edited once released: a change is a new migration. */
export const payoutChanges: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw('ALTER TABLE stores ADD COLUMN payout_changed_at_ms INTEGER').execute(db)
  },
}
