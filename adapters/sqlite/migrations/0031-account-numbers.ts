import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Which account number of a settling key is whose, and letters between processes. Never edited once released: a change is a new migration. */
export const accountNumbers: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = [
  // Not unique by itself: several payments may be in one transaction, and what is over keeps its number.
  `CREATE INDEX attempts_number ON attempts (settler, sequence)
    WHERE settler LIKE 'evm:%' AND sequence IS NOT NULL`,
  `CREATE TABLE letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    recipient INTEGER NOT NULL,
    sender INTEGER NOT NULL,
    body BLOB NOT NULL
  ) STRICT`,
  'CREATE INDEX letters_recipient ON letters (recipient, id)',
]
