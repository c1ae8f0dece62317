import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Links of a store, page by page. Never edited once released: a change is a new migration. */
export const linkPages: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = [
  // Deleted links are kept for good: a page looks past none of them.
  'CREATE INDEX links_pages ON links (store_id, created_at_ms, id) WHERE is_active = 1',
]
