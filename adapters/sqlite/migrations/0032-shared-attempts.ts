import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * Signed bytes that settle several payments are kept once, and as long as one of these has them: in each row they would take room
 * by the square of how many there are. Never edited once released: a change is a new migration.
 */
export const sharedAttempts: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const forgetBytes = `BEGIN
  DELETE FROM shared_bytes
  WHERE tx = old.tx AND NOT EXISTS (SELECT 1 FROM attempts WHERE is_shared = 1 AND tx = old.tx);
END`

const statements = [
  `CREATE TABLE shared_bytes (
    tx TEXT PRIMARY KEY NOT NULL,
    bytes TEXT NOT NULL
  ) STRICT`,
  'ALTER TABLE attempts ADD COLUMN is_shared INTEGER NOT NULL DEFAULT 0',
  'CREATE INDEX attempts_shared ON attempts (tx) WHERE is_shared = 1',
  `CREATE TRIGGER attempts_forgotten AFTER DELETE ON attempts WHEN old.is_shared = 1 ${forgetBytes}`,
  `CREATE TRIGGER attempts_replaced AFTER UPDATE OF tx ON attempts WHEN old.is_shared = 1 ${forgetBytes}`,
]
