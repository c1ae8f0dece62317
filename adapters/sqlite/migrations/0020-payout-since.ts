import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Since when a store is paid to its wallet, on each chain. Never edited once released: a change is a new migration. */
export const payoutSince: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = ['base', 'solana'].flatMap((chain) => [
  // Null while it is the wallet that the store was made with.
  `ALTER TABLE stores ADD COLUMN payout_${chain}_since_ms INTEGER`,
  `UPDATE stores SET payout_${chain}_since_ms = payout_changed_at_ms WHERE payout_changed_at_ms IS NOT NULL`,
  `CREATE INDEX stores_payout_${chain} ON stores (payout_${chain}) WHERE payout_${chain} IS NOT NULL`,
])
