import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** The wallets that a session was to be paid to when it was made. Never edited once released: a change is a new migration. */
export const sessionPayout: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw('ALTER TABLE payment_sessions ADD COLUMN payout TEXT').execute(db)
  },
}
