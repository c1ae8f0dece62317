import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Which sessions may be forgotten. Never edited once released: a change is a new migration. */
export const unpaidSessions: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = [
  // Looked at once: what stays would otherwise be in front of all that may go, for good.
  'ALTER TABLE payment_sessions ADD COLUMN is_kept INTEGER NOT NULL DEFAULT 0',
  `CREATE INDEX payment_sessions_ended ON payment_sessions (ended_at_ms)
    WHERE is_kept = 0 AND state IN ('expired', 'canceled')`,
  'CREATE INDEX payments_session ON payments (session_id) WHERE session_id IS NOT NULL',
]
