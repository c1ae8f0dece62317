import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Transfers by which sellers gave money back. Never edited once released: a change is a new migration. */
export const refunds: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw(table).execute(db)
  },
}

// One of a payment by the primary key, one payment of a transaction by the other. Hashes of EVM transactions stand in
// lower case: they are the same in either.
const table = `CREATE TABLE refunds (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    network TEXT NOT NULL,
    tx_hash TEXT NOT NULL CHECK (network NOT LIKE 'eip155:%' OR tx_hash = lower(tx_hash)),
    refunded_at_ms INTEGER NOT NULL,
    UNIQUE (network, tx_hash)
  ) STRICT`
