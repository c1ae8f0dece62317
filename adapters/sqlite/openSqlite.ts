import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { type Clock, machineClock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import type { Schema } from '../sql/schema.ts'
import { createApiKeys } from './apiKeys.ts'
import { backupTo } from './backup/backup.ts'
import { createBrowserSessions } from './browserSessions.ts'
import { createSqliteChanges } from './changes.ts'
import { startWriter } from './commit/writer.ts'
import { connectReader, connectWriter } from './connect.ts'
import type { Database } from './database.ts'
import { createDiscovery } from './discovery.ts'
import { errorOf, failureOf } from './failure.ts'
import { createFigures } from './figures.ts'
import { createGasBook } from './gasBook.ts'
import { createHealthChecks } from './healthChecks.ts'
import { createLetters } from './letters.ts'
import { createLinks } from './links.ts'
import { migrate } from './migrate.ts'
import { nodeSqliteDialect } from './nodeSqliteDialect.ts'
import { createOversight } from './oversight.ts'
import { createAnswers } from './payments/answers.ts'
import { createBooks } from './payments/books.ts'
import { createFees } from './payments/fees.ts'
import { createLeases } from './payments/leases.ts'
import { createPurchases } from './payments/purchases.ts'
import { createPictures } from './pictures.ts'
import { createReaderThread } from './reader/readerThread.ts'
import { createReviews } from './reviews.ts'
import { createSessions } from './sessions/sessions.ts'
import { createSignInNonces } from './signInNonces.ts'
import { createStores } from './stores.ts'
import { createWebhooks } from './webhooks/webhooks.ts'

export interface SqliteOptions {
  /** The database file; its folder is made when missing. `:memory:` keeps it in a temporary file that close() removes. */
  readonly path: string
  /** People's time. */
  readonly clock: Clock
  /** The time of leases and due times: the same for every process that uses the file. Default: the machine's. */
  readonly storeClock?: Clock
  readonly log: Log
  /** How often the file is asked what other processes changed. Default: 500 ms. */
  readonly pollMs?: number
  /**
   * A write waits at most `flushMs` for company before its group is committed; a group of `maxRows` goes at once.
   * `maxRows: 1` commits every write by itself. Default: 1 ms, 32 rows.
   */
  readonly groupCommit?: { readonly flushMs: number; readonly maxRows: number }
}

/** The embedded store: one file, one writer thread per process; several processes may share the file. */
export interface SqliteStore extends DataStore {
  /** For the other modules of this folder. */
  readonly database: Database
  /** Writes a consistent copy while the store is in use. @throws when the file exists. */
  backup(toFile: string): Promise<void>
}

/**
 * Opens the database, makes or migrates its tables, and starts its writer.
 *
 * @throws when the file cannot be opened or was written by a newer version.
 */
export async function openSqlite(options: SqliteOptions): Promise<SqliteStore> {
  const { clock, storeClock = machineClock, log, groupCommit = { flushMs: 1, maxRows: 32 } } = options
  const isTemporary = options.path === ':memory:'
  const path = isTemporary ? join(mkdtempSync(join(tmpdir(), 'tollgate-')), 'tollgate.db') : options.path
  const isDurable = !isTemporary

  prepareFile(path)
  await migrateFile(path, isDurable, log)
  const writer = await startWriter({ path, isDurable, ...groupCommit }, log)
  const reader = connectReader(path)
  const query = new Kysely<Schema>({ dialect: nodeSqliteDialect(reader) })
  const database: Database = { reader, query, writer, clock }

  const answers = createAnswers(path)
  const thread = createReaderThread(path)
  // Whoever looks for words in ten thousand links keeps nobody waiting who looks at the first page of his.
  const slowThread = createReaderThread(path)
  const letters = createLetters(database, log)
  const changes = createSqliteChanges(database, { log, pollMs: options.pollMs })
  return {
    books: createBooks(database, answers, storeClock),
    leases: createLeases(database, storeClock),
    letters,
    purchases: createPurchases(database, path, thread),
    fees: createFees(database, thread),
    links: createLinks(database, thread, slowThread),
    healthChecks: createHealthChecks(database),
    figures: createFigures(database, thread, slowThread),
    reviews: createReviews(database, thread),
    discovery: createDiscovery(database, thread.of('discovery')),
    stores: createStores(database),
    pictures: createPictures(database),
    keys: createApiKeys(database),
    nonces: createSignInNonces(database),
    browserSessions: createBrowserSessions(database),
    changes,
    gas: createGasBook(database),
    webhooks: createWebhooks(database, thread, storeClock),
    sessions: createSessions(database, thread),
    oversight: createOversight(slowThread.of('operator')),
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
      await Promise.all([changes.close(), answers.close(), thread.close(), slowThread.close()])
      letters.close()
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

async function migrateFile(path: string, isDurable: boolean, log: Log): Promise<void> {
  let database: DatabaseSync | undefined
  try {
    database = connectWriter(path, isDurable)
    const applied = await migrate(database)
    if (applied > 0) log.info({ path, applied }, 'Migrated the database.')
  } catch (error) {
    const failure = failureOf(error)
    if (failure.kind !== 'unavailable') throw error
    // SQLITE_FULL
    if ((error as { errcode?: unknown }).errcode === 13)
      throw new Error(
        `The database ${path} could not be brought to this version: the disk is full. It is as it was. Make room for as much again as the file has, and start again.`,
        { cause: error },
      )
    throw errorOf({ ...failure, message: `${path}: ${failure.message}` })
  } finally {
    database?.close()
  }
}
