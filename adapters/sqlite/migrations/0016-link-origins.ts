import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** What a link was imported from. Never edited once released: a change is a new migration. */
export const linkOrigins: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = [
  'ALTER TABLE links ADD COLUMN origin_document TEXT',
  'ALTER TABLE links ADD COLUMN origin_key TEXT',
  'ALTER TABLE links ADD COLUMN origin_operation TEXT',
  // Of two imports at once, one makes the link.
  `CREATE UNIQUE INDEX links_origin ON links (store_id, origin_document, origin_key)
    WHERE is_active = 1 AND origin_document IS NOT NULL`,
]
