import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'
import { booksApply } from './0002-books.ts'

/** A change can name what a payment is where it is for: see errorWas of core/ports/store/books.ts. */
export const errorWas: Migration = {
  async up(db: Kysely<unknown>) {
    await sql`ALTER TYPE book_change ADD ATTRIBUTE error_was text`.execute(db)
    await sql.raw(booksApply('(c.error_was IS NULL OR payments.error_reason = c.error_was)')).execute(db)
  },
}
