import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'
import { bookChanges } from './bookChanges.ts'
import { bookForget } from './bookForget.ts'
import { claims } from './claims.ts'
import { deliveries } from './deliveries.ts'
import { discovery } from './discovery.ts'
import { figures } from './figures.ts'
import { links } from './links.ts'
import { payments } from './payments.ts'
import { changes, processes } from './processes.ts'
import { purchases } from './purchases.ts'
import { sessionFunctions, sessions } from './sessions.ts'
import { signIn, stores } from './stores.ts'
import { sums } from './sums.ts'
import { webhooks } from './webhooks.ts'

/**
 * The statements of each migration, by the collation of words. A released one is never edited: a change is another migration beside it.
 *
 * Columns are SQLite's: money is text of decimal digits, times are ms since 1970, flags are 0 or 1, lists and free JSON are text. Text
 * is compared by its bytes, whatever the database's language is.
 */
export const statements: Readonly<Record<string, (collation: string) => string>> = {
  '0001-schema': (collation) =>
    [
      stores,
      signIn,
      links,
      payments,
      purchases,
      sessions,
      webhooks,
      deliveries,
      claims,
      bookChanges,
      bookForget,
      sessionFunctions,
      sums,
      discovery(collation),
      figures,
      processes,
      changes,
    ].join('\n'),
}

/** In order of their names; listed here so that a bundled or compiled copy needs no directory to read. */
export const migrations: Readonly<Record<string, Migration>> = Object.fromEntries(
  Object.entries(statements).map(([name, text]) => [
    name,
    {
      async up(db) {
        await sql.raw(text(await collationOf(db))).execute(db)
      },
    },
  ]),
)

/** One that has letters and their lower case in every script, whatever the database's language is; builds without ICU have none. */
async function collationOf(db: Kysely<unknown>): Promise<string> {
  const { rows } = await sql`SELECT 1 FROM pg_collation WHERE collname = 'und-x-icu'`.execute(db)
  return rows.length > 0 ? '"und-x-icu"' : '"default"'
}
