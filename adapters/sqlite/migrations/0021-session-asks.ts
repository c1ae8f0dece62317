import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** The one token that a session is paid in. Never edited once released: a change is a new migration. */
export const sessionAsks: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw('ALTER TABLE payment_sessions ADD COLUMN asks TEXT').execute(db)
  },
}
