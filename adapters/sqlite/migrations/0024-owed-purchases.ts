import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Which purchases are owed back to a wallet. Never edited once released: a change is a new migration. */
export const owedPurchases: Migration = {
  async up(db: Kysely<unknown>) {
    await sql
      .raw(`CREATE INDEX purchases_owed ON purchases (buyer_wallet) WHERE status = 'refund_due'`)
      .execute(db)
  },
}
