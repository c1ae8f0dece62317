import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** What buyers said, and how many of them. Never edited once released: a change is a new migration. */
export const reviews: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = [
  `CREATE TABLE reviews (
    id TEXT PRIMARY KEY NOT NULL,
    purchase_id TEXT NOT NULL UNIQUE,
    link_id TEXT NOT NULL,
    store_id TEXT NOT NULL,
    wallet TEXT NOT NULL,
    positive INTEGER NOT NULL,
    comment TEXT,
    created_at_ms INTEGER NOT NULL
  ) STRICT`,
  'CREATE INDEX reviews_link ON reviews (link_id, created_at_ms, id)',
  'CREATE INDEX reviews_store ON reviews (store_id, created_at_ms, id)',
  // Counted when they are written: a page of links shows the counts of each.
  `CREATE TABLE review_counts (
    link_id TEXT PRIMARY KEY NOT NULL,
    total INTEGER NOT NULL,
    positive INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  `CREATE TRIGGER reviews_counted AFTER INSERT ON reviews BEGIN
    INSERT INTO review_counts (link_id, total, positive) VALUES (NEW.link_id, 1, NEW.positive)
      ON CONFLICT (link_id) DO UPDATE SET total = total + 1, positive = positive + excluded.positive;
  END`,
]
