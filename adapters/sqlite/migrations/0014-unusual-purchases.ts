import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** What is owed, went back or left the chain is found among a million sales. Never edited once released: a change is a new migration. */
export const unusualPurchases: Migration = {
  async up(db: Kysely<unknown>) {
    await sql
      .raw(
        `CREATE INDEX purchases_unusual ON purchases (store_id, status, created_at_ms, id)
          WHERE status NOT IN ('settled', 'delivered')`,
      )
      .execute(db)
  },
}
