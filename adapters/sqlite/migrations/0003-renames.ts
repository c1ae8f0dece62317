import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** How often stores were renamed, and one former name a store. Never edited once released: a change is a new migration. */
export const renames: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = [
  // One row a rename, with the limit that held for it, so that the count and the rename are one commit.
  `CREATE TABLE renames (
    store_id TEXT NOT NULL REFERENCES stores (id),
    at_ms INTEGER NOT NULL,
    max_a_day INTEGER NOT NULL
  ) STRICT`,
  'CREATE INDEX renames_store ON renames (store_id, at_ms)',
  `CREATE TRIGGER renames_counted BEFORE INSERT ON renames
    WHEN (SELECT count(*) FROM renames
      WHERE store_id = NEW.store_id AND at_ms > NEW.at_ms - 86400000) >= NEW.max_a_day
    BEGIN SELECT RAISE(ABORT, 'too many renames'); END`,
  // A former name that leads nowhere any more is news to whoever cached where it led.
  `CREATE TRIGGER username_redirects_deleted AFTER DELETE ON username_redirects BEGIN
    INSERT INTO changes (kind, username) VALUES ('store', OLD.username);
  END`,
  `DELETE FROM username_redirects WHERE EXISTS (SELECT 1 FROM username_redirects AS later
    WHERE later.store_id = username_redirects.store_id
      AND (later.expires_at_ms, later.username) > (username_redirects.expires_at_ms, username_redirects.username))`,
  'CREATE INDEX store_wallets_store ON store_wallets (store_id)',
]
