import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'
import { discovery, listing } from './discovery.ts'
import { figures } from './figures.ts'
import { judgedDays } from './judgedDays.ts'
import { health, links } from './links.ts'
import { attempts, payments } from './payments.ts'
import { changes, processes } from './processes.ts'
import { purchases, reviews } from './purchases.ts'
import { sessions } from './sessions.ts'
import { pictures, renames, signIn, stores } from './stores.ts'
import { sums } from './sums.ts'
import { webhooks } from './webhooks.ts'

/** The statements of each migration. A released one is never edited: a change is another migration beside it. */
export const statements: Readonly<Record<string, readonly string[]>> = {
  '0001-schema': [
    ...stores,
    ...renames,
    ...pictures,
    ...signIn,
    ...links,
    ...health,
    ...payments,
    ...attempts,
    ...purchases,
    ...reviews,
    ...sums,
    ...judgedDays,
    ...sessions,
    ...webhooks,
    ...discovery,
    ...listing,
    ...figures,
    ...processes,
    ...changes,
  ],
}

/** In order of their names; listed here so that a bundled or compiled copy needs no directory to read. */
export const migrations: Readonly<Record<string, Migration>> = Object.fromEntries(
  Object.entries(statements).map(([name, list]) => [
    name,
    {
      async up(db) {
        for (const statement of list) await sql.raw(statement).execute(db)
      },
    },
  ]),
)
