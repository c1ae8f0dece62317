import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** What the settlements of each store cost in a day. Never edited once released: a change is a new migration. */
export const gas: Migration = {
  async up(db: Kysely<unknown>) {
    await sql
      .raw(
        `CREATE TABLE gas_spent (
          network TEXT NOT NULL,
          store_id TEXT NOT NULL,
          day INTEGER NOT NULL,
          spent TEXT NOT NULL,
          PRIMARY KEY (network, store_id, day)
        ) STRICT, WITHOUT ROWID`,
      )
      .execute(db)
  },
}
