import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Pictures of stores, and where else they are. Never edited once released: a change is a new migration. */
export const pictures: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const forget = `DELETE FROM pictures
  WHERE hash = OLD.hash AND NOT EXISTS (SELECT 1 FROM store_pictures WHERE hash = OLD.hash)`

const statements = [
  `ALTER TABLE stores ADD COLUMN socials TEXT NOT NULL DEFAULT '[]'`,
  `CREATE TABLE pictures (
    hash TEXT PRIMARY KEY NOT NULL,
    media_type TEXT NOT NULL,
    bytes BLOB NOT NULL
  ) STRICT`,
  `CREATE TABLE store_pictures (
    store_id TEXT PRIMARY KEY NOT NULL REFERENCES stores (id),
    hash TEXT NOT NULL
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX store_pictures_hash ON store_pictures (hash)',
  // Triggers, and not the callers: whatever else a store's avatarUrl becomes, no picture stays behind that nobody shows.
  `CREATE TRIGGER store_pictures_deleted AFTER DELETE ON store_pictures BEGIN ${forget}; END`,
  `CREATE TRIGGER store_pictures_replaced AFTER UPDATE OF hash ON store_pictures BEGIN ${forget}; END`,
  `CREATE TRIGGER stores_pictured AFTER UPDATE OF avatar_url ON stores WHEN NEW.avatar_url <> OLD.avatar_url BEGIN
    DELETE FROM store_pictures WHERE store_id = NEW.id AND instr(NEW.avatar_url, hash) = 0;
  END`,
]
