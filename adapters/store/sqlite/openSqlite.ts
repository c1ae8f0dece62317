import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { type Clock, machineClock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { createApiKeys } from '../repositories/apiKeys.ts'
import { createBrowserSessions } from '../repositories/browserSessions.ts'
import { type Calls, callsOver } from '../repositories/calls.ts'
import { createChannelBooks } from '../repositories/channelBookReads.ts'
import { createChannels } from '../repositories/channels.ts'
import { createGasBook } from '../repositories/gasBook.ts'
import { createImages } from '../repositories/images.ts'
import { createLeases, steady } from '../repositories/leases.ts'
import { createHealthChecks } from '../repositories/links/healthChecks.ts'
import { createLinks } from '../repositories/links/links.ts'
import { createPaymentSessions } from '../repositories/paymentSessions.ts'
import { createPayments } from '../repositories/payments.ts'
import { createRetention } from '../repositories/retention.ts'
import { createReviews } from '../repositories/reviews.ts'
import { createSignInNonces } from '../repositories/signInNonces.ts'
import { createStores } from '../repositories/stores.ts'
import { createWebhooks } from '../repositories/webhooks/webhooks.ts'
import type { Schema } from '../sql/schema.ts'
import { backupTo } from './backup/backup.ts'
import { createSqliteChanges } from './changes.ts'
import { createChannelCharges } from './channelCharges.ts'
import { startWriter, type Writer } from './commit/writer.ts'
import { connectReader, connectWriter, type Database } from './connect.ts'
import { createDiscovery } from './discovery.ts'
import { errorOf, failureOf } from './failure.ts'
import { createLinkReads } from './links.ts'
import { createMessages } from './mailbox.ts'
import { migrate } from './migrate.ts'
import { nodeSqliteDialect } from './nodeSqliteDialect.ts'
import { createOperatorView } from './operatorView.ts'
import { createLedger } from './payments/ledger.ts'
import { createFees, createPurchases } from './payments/purchases.ts'
import { createResponses, type Responses } from './payments/responses.ts'
import { createReaderThread, type ReaderThread } from './reader/readerThread.ts'
import { createStats } from './stats.ts'
import { readsOf, threadReadsOf } from './templates.ts'

export interface SqliteOptions {
  /** The database file. Its folder is created if it is missing. `:memory:` uses a temporary file that close() removes. */
  readonly path: string
  /** Wall-clock time. */
  readonly clock: Clock
  /** The time for leases and due times. It is the same for every process that uses the file. Default: the machine's clock. */
  readonly storeClock?: Clock
  readonly log: Log
  /** How often this process polls the file for changes of other processes, in ms. Default 500. */
  readonly pollMs?: number
  /**
   * How long a write waits for others before its group is committed (`flushMs`, in ms). A group of `maxRows` writes is committed at
   * once, so with `maxRows: 1` every write is committed alone. Default: 1 ms, 32 rows.
   */
  readonly groupCommit?: { readonly flushMs: number; readonly maxRows: number }
}

/** The embedded database. It is one file, with one writer thread per process. Several processes may share the file. */
export interface SqliteStore extends DataStore {
  /** The connections, for the other modules of this folder. */
  readonly database: Database
  /**
   * Writes a consistent copy while the database is in use.
   * @throws when the file exists
   */
  backup(toFile: string): Promise<void>
}

/**
 * Opens the database, creates or migrates its tables, and starts its writer.
 *
 * @throws when the file cannot be opened or a newer version wrote it
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

  const responses = createResponses(path)
  const thread = createReaderThread(path)
  // Slow reads have a thread of their own, because a search over ten thousand links must not delay a seller who opens their first
  // page.
  const slowThread = createReaderThread(path)
  const ports = createPorts(
    { database, path, responses, thread, slowThread, storeClock, log },
    options.pollMs,
  )
  return {
    ...ports,

    backup: (toFile) => backupTo(path, toFile),

    async close() {
      // The last connection that closes copies the log back and deletes it. That should be the writer's thread, so the others close
      // first.
      await Promise.all([ports.changes.close(), responses.close(), thread.close(), slowThread.close()])
      ports.mailbox.close()
      if (reader.isOpen) reader.close()
      await writer.close()
      if (isTemporary) rmSync(dirname(path), { recursive: true, force: true })
    },
  }
}

export interface PortDeps {
  readonly database: Database
  readonly path: string
  readonly responses: Responses
  readonly thread: ReaderThread
  readonly slowThread: ReaderThread
  readonly storeClock: Clock
  readonly log: Log
}

/** The database's ports over the writer and the readers. */
export function createPorts(deps: PortDeps, pollMs?: number) {
  const { database, path, responses, thread, slowThread, storeClock, log } = deps
  const { writer, clock } = database
  const changes = createSqliteChanges(database, { log, pollMs })
  const calls = callsTo(writer, clock, storeClock)
  /** Writes of links and stores, which other modules cache. */
  const notifying = callsTo(changes.after(writer), clock, storeClock)
  const reads = readsOf(database.reader)
  const readsFor = (requester: string) => threadReadsOf(thread, requester)
  const shared = { calls, reads, storeNow: () => storeClock.now(), clock: steady }
  const mailbox = createMessages(database, log)
  return {
    ledger: {
      ...createLedger(database, responses, storeClock),
      ...createPayments(shared),
      ...createRetention(calls, reads),
    },
    leases: createLeases(shared),
    mailbox,
    purchases: createPurchases(database, path, thread),
    fees: createFees(database, thread),
    links: createLinks(notifying, { reads, readsFor, own: createLinkReads(database, thread, slowThread) }),
    healthChecks: createHealthChecks(calls, reads),
    stats: createStats(database, thread, slowThread),
    reviews: createReviews(calls, readsFor),
    discovery: createDiscovery(database, thread.of('discovery')),
    stores: createStores(notifying, reads),
    images: createImages(notifying, reads),
    keys: createApiKeys(calls, reads),
    nonces: createSignInNonces(calls, reads),
    browserSessions: createBrowserSessions(calls, reads),
    changes,
    channels: { ...createChannels(calls, reads), charge: createChannelCharges(database) },
    channelBooks: createChannelBooks(calls, readsFor),
    gas: createGasBook(calls, reads),
    webhooks: createWebhooks(calls, reads, readsFor),
    sessions: createPaymentSessions(calls, reads, readsFor),
    operatorView: createOperatorView(slowThread.of('operator')),
    database,

    async health() {
      try {
        await writer.write('probe', clock.now())
        return []
      } catch (error) {
        return [`The database ${path} accepts no writes: ${(error as Error).message}`]
      }
    },
  } satisfies Omit<DataStore, 'close'> & { readonly database: Database }
}

/**
 * Creates the file so that only its owner can read it, because it contains sealed secrets. SQLite gives the log and the index of
 * the log the same mode.
 */
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
        `The database ${path} could not be migrated, because the disk is full. The database is unchanged. Free as much space as the file occupies, and start again.`,
        { cause: error },
      )
    throw errorOf({ ...failure, message: `${path}: ${failure.message}` })
  } finally {
    database?.close()
  }
}

/** The methods of the repositories. The writer runs them. */
export const callsTo = (writer: Pick<Writer, 'write'>, clock: Clock, storeClock: Clock): Calls =>
  callsOver((call, durability) =>
    writer.write('call', { ...call, nowMs: clock.now(), storeNowMs: storeClock.now() }, durability),
  )
