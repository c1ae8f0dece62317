import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Who is signed in with a browser. Never edited once released: a change is a new migration. */
export const browserSessions: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = [
  `CREATE TABLE browser_sessions (
    id TEXT PRIMARY KEY NOT NULL,
    store_id TEXT,
    token_hash TEXT NOT NULL UNIQUE,
    chain TEXT,
    address TEXT,
    user_agent TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    last_seen_at_ms INTEGER NOT NULL,
    ends_at_ms INTEGER NOT NULL
  ) STRICT`,
  'CREATE INDEX browser_sessions_holder ON browser_sessions (store_id, last_seen_at_ms)',
  'CREATE INDEX browser_sessions_end ON browser_sessions (ends_at_ms)',
]
