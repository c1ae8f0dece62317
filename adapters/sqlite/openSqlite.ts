import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import type { Clock } from '../../core/ports/clock.ts'
import type { Links } from '../../core/ports/links.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Payments } from '../../core/ports/payments.ts'
import type { Purchases } from '../../core/ports/purchases.ts'
import type { ApiKeys, SignInNonces, Stores } from '../../core/ports/stores.ts'
import { createApiKeys } from './apiKeys.ts'
import { backupTo } from './backup.ts'
import { connectReader, connectWriter } from './connect.ts'
import type { Database } from './database.ts'
import { errorOf, failureOf } from './failure.ts'
import { createLinks } from './links.ts'
import { migrate } from './migrate.ts'
import { nodeSqliteDialect } from './nodeSqliteDialect.ts'
import { createPayments } from './payments.ts'
import { createPurchases } from './purchases.ts'
import type { Schema } from './schema.ts'
import { createSignInNonces } from './signInNonces.ts'
import { createStores } from './stores.ts'
import { startWriter } from './writer.ts'

export interface SqliteOptions {
  /** The database file; its folder is made when missing. `:memory:` keeps it in a temporary file that close() removes. */
  readonly path: string
  readonly clock: Clock
  readonly log: Log
  /**
   * A write waits at most `flushMs` for company before its group is committed; a group of `maxRows` goes at once.
   * `maxRows: 1` commits every write by itself. Default: 1 ms, 32 rows.
   */
  readonly groupCommit?: { readonly flushMs: number; readonly maxRows: number }
}

/** The embedded store: one file, one writer thread per process; several processes may share the file. */
export interface SqliteStore {
  readonly payments: Payments
  readonly purchases: Purchases
  readonly links: Links
  readonly stores: Stores
  readonly keys: ApiKeys
  readonly nonces: SignInNonces
  /** For the other modules of this folder. */
  readonly database: Database
  /** What is wrong with the store, in words: full, read-only, not answering. Empty when a write got through. */
  health(): Promise<string[]>
  /** Writes a consistent copy while the store is in use. @throws when the file exists. */
  backup(toFile: string): Promise<void>
  /** Commits what is under way and closes the file. Later calls reject with `store_unavailable`. */
  close(): Promise<void>
}

/**
 * Opens the database, makes or migrates its tables, and starts its writer.
 *
 * @throws when the file can not be opened or was written by a newer version.
 */
export async function openSqlite(options: SqliteOptions): Promise<SqliteStore> {
  const { clock, log, groupCommit = { flushMs: 1, maxRows: 32 } } = options
  const isTemporary = options.path === ':memory:'
  const path = isTemporary ? join(mkdtempSync(join(tmpdir(), 'tollgate-')), 'tollgate.db') : options.path
  const synchronous = isTemporary ? 'OFF' : 'FULL'

  prepareFile(path)
  await migrateFile(path, synchronous, log)
  const writer = await startWriter({ path, synchronous, ...groupCommit }, log)
  const reader = connectReader(path)
  const query = new Kysely<Schema>({ dialect: nodeSqliteDialect(reader) })
  const database: Database = { reader, query, writer, clock }

  return {
    payments: createPayments(database),
    purchases: createPurchases(database, path),
    links: createLinks(database),
    stores: createStores(database),
    keys: createApiKeys(database),
    nonces: createSignInNonces(database),
    database,

    async health() {
      try {
        await writer.write('probe', clock.now())
        return []
      } catch (error) {
        return [`The database ${path} takes no writes: ${(error as Error).message}`]
      }
    },

    backup: (toFile) => backupTo(path, toFile),

    async close() {
      // The last connection to close copies the log back and removes it; that is work for the writer's thread.
      if (reader.isOpen) reader.close()
      await writer.close()
      if (isTemporary) rmSync(dirname(path), { recursive: true, force: true })
    },
  }
}

/** Makes the file, readable by its owner only: it holds sealed secrets, and SQLite gives its companions the same mode. */
function prepareFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true })
  try {
    closeSync(openSync(path, 'ax', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

async function migrateFile(path: string, synchronous: 'FULL' | 'OFF', log: Log): Promise<void> {
  let database: DatabaseSync | undefined
  try {
    database = connectWriter(path, synchronous)
    const applied = await migrate(database)
    if (applied > 0) log.info({ path, applied }, 'Migrated the database.')
  } catch (error) {
    throw failureOf(error).kind === 'unavailable' ? errorOf(failureOf(error)) : error
  } finally {
    database?.close()
  }
}
