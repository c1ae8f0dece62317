import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * What is booked for a purchase at once is one row: four rows of a sale were a tenth of all that a sale writes. Never edited
 * once released: a change is a new migration.
 */
export const ledger: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = [
  `CREATE TABLE ledger (
    purchase_id TEXT NOT NULL,
    move INTEGER NOT NULL,
    entries TEXT NOT NULL,
    PRIMARY KEY (purchase_id, move)
  ) STRICT, WITHOUT ROWID`,
  // What was booked before is one move, whenever it was.
  `INSERT INTO ledger
    SELECT purchase_id, 0, json_group_array(json_array(account, network, asset, amount_atomic, kind) ORDER BY line)
    FROM ledger_entries GROUP BY purchase_id`,
  'DROP TABLE ledger_entries',
]
