import type { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely } from 'kysely'
import { Migrator } from 'kysely/migration'
import { BUSY_TIMEOUT_MS } from './connect.ts'
import { isBusy } from './failure.ts'
import { nodeSqliteDialect } from './nodeSqliteDialect.ts'
import { migrations } from './schema/migrations.ts'

/** How long a process waits for another one that migrates, in ms. */
const MIGRATION_MS = 600_000

/**
 * Brings the tables up to date. Several processes may start at once: all of it happens inside one `BEGIN IMMEDIATE`, so one process
 * migrates while the others wait, and a crash in the middle leaves the database as it was.
 *
 * @returns how many migrations were applied.
 * @throws when the database was written by a newer version, or a migration fails.
 */
export async function migrate(database: DatabaseSync): Promise<number> {
  await whenUnlocked(database, 'PRAGMA journal_mode = WAL')
  // A database that is up to date is not written to: it may be on a full or read-only disk.
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
 * Runs a statement that needs a lock, asking again until it has it. Waiting inside SQLite would stop this thread, and with
 * it another store of this process that holds the lock; and for the journal mode SQLite does not wait at all, because two
 * that want to switch could wait for each other.
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
      `Expected a database of this version or an older one, but it has the migration ${unknown['name']}. ` +
        'A newer version of Tollgate wrote it: install that version again, or restore a backup.',
    )
  }
  return applied.length === names.length
}
