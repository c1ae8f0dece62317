import type { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { BUSY_TIMEOUT_MS } from './connect.ts'
import { isBusy } from './failure.ts'
import { nodeSqliteDialect } from './nodeSqliteDialect.ts'
import { channels } from './schema/channels.ts'
import { checkedDays } from './schema/checkedDays.ts'
import { discovery, listing } from './schema/discovery.ts'
import { health, links } from './schema/links.ts'
import { attempts, payments } from './schema/payments.ts'
import { changes, processes } from './schema/processes.ts'
import { purchases, reviews } from './schema/purchases.ts'
import { sessions } from './schema/sessions.ts'
import { rollups, stats } from './schema/stats.ts'
import { images, renames, signIn, stores } from './schema/stores.ts'
import { webhooks } from './schema/webhooks.ts'

/** How long a process waits for another one that migrates, in ms. */
const MIGRATION_MS = 600_000

/**
 * Brings the tables up to date inside one `BEGIN IMMEDIATE`. If several processes start at the same time, one of them migrates and
 * the others wait. A crash during a migration leaves the database as it was.
 *
 * @returns how many migrations were applied
 * @throws when a newer version wrote the database, or a migration fails
 */
export async function migrate(database: DatabaseSync): Promise<number> {
  await whenUnlocked(database, 'PRAGMA journal_mode = WAL')
  // An up-to-date database gets no write, because its disk may be full or read-only.
  if (isUpToDate(database)) return 0
  await whenUnlocked(database, 'BEGIN IMMEDIATE', MIGRATION_MS)
  try {
    if (isUpToDate(database)) {
      database.exec('ROLLBACK')
      return 0
    }
    const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) })
    const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...migrations }) } })
    const { error, results } = await migrator.migrateToLatest()
    if (error !== undefined) throw error
    database.exec('COMMIT')
    return results?.length ?? 0
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK')
    throw error
  }
}

/**
 * Retries a statement until it gets the lock that it needs. A wait inside SQLite would block this thread, and another connection of
 * the thread may have to release the lock. For the journal mode SQLite does not wait at all, because two processes that switch it
 * could deadlock.
 */
async function whenUnlocked(database: DatabaseSync, sql: string, waitMs = BUSY_TIMEOUT_MS): Promise<void> {
  database.exec('PRAGMA busy_timeout = 0')
  const giveUpAt = performance.now() + waitMs
  for (;;) {
    try {
      database.exec(sql)
      break
    } catch (error) {
      if (!isBusy(error) || performance.now() > giveUpAt) throw error
      await sleep(10)
    }
  }
  database.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`)
}

function isUpToDate(database: DatabaseSync): boolean {
  const names = Object.keys(migrations)
  const table = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'kysely_migration'").get()
  if (table === undefined) return false
  const applied = database.prepare('SELECT name FROM kysely_migration ORDER BY name').all()
  const unknown = applied.find((row) => !names.includes(String(row['name'])))
  if (unknown !== undefined) {
    throw new Error(
      `Expected a database of this version or an older one, but it has the migration ${unknown['name']}, which this version does not know. ` +
        'A newer version or a development version of Tollgate wrote the database. Install that version again, or restore a backup.',
    )
  }
  return applied.length === names.length
}

/** The statements of each migration. A released migration is never edited. Every change is a new migration. */
export const statements: Readonly<Record<string, readonly string[]>> = {
  '0001-schema': [
    ...stores,
    ...renames,
    ...images,
    ...signIn,
    ...links,
    ...health,
    ...payments,
    ...attempts,
    ...purchases,
    ...channels,
    ...reviews,
    ...rollups,
    ...checkedDays,
    ...sessions,
    ...webhooks,
    ...discovery,
    ...listing,
    ...stats,
    ...processes,
    ...changes,
  ],
}

/** Migrations in the order of their names. They are in a list, so that a bundled or compiled copy needs no directory to read. */
const migrations: Readonly<Record<string, Migration>> = Object.fromEntries(
  Object.entries(statements).map(([name, list]) => [
    name,
    {
      async up(db) {
        for (const statement of list) await sql.raw(statement).execute(db)
      },
    },
  ]),
)
