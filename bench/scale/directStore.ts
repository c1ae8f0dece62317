import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import type { Schema } from '../../adapters/sql/schema.ts'
import { createApiKeys } from '../../adapters/sqlite/apiKeys.ts'
import { type Operations, prepareOperations } from '../../adapters/sqlite/commit/operations.ts'
import type { Database } from '../../adapters/sqlite/database.ts'
import { createDiscovery } from '../../adapters/sqlite/discovery.ts'
import { createFigures } from '../../adapters/sqlite/figures.ts'
import { createHealthChecks } from '../../adapters/sqlite/healthChecks.ts'
import { createLinks } from '../../adapters/sqlite/links.ts'
import { nodeSqliteDialect } from '../../adapters/sqlite/nodeSqliteDialect.ts'
import { openSqlite } from '../../adapters/sqlite/openSqlite.ts'
import { createBooks } from '../../adapters/sqlite/payments/books.ts'
import { createLeases } from '../../adapters/sqlite/payments/leases.ts'
import { createPurchases } from '../../adapters/sqlite/payments/purchases.ts'
import type { ReaderThread } from '../../adapters/sqlite/reader/readerThread.ts'
import { createReviews } from '../../adapters/sqlite/reviews.ts'
import { createSessions } from '../../adapters/sqlite/sessions/sessions.ts'
import { createStores } from '../../adapters/sqlite/stores.ts'
import { createWebhooks } from '../../adapters/sqlite/webhooks/webhooks.ts'
import { type Clock, machineClock, systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'

/** What a page cache may take: all of what grows at random places, and little of a small machine. In KiB. */
const CACHE_KIB = 1_000_000

/**
 * The product's own SQLite adapters over one connection and one transaction, with nothing flushed: what they write is what a
 * gateway writes, a hundred times as fast. A process that ends before `commit` leaves a file that is of no use.
 *
 * @param clock people's time, which the filler turns
 */
export async function openDirect(path: string, clock: Clock) {
  await (await openSqlite({ path, clock: systemClock, log: silentLog })).close()
  const connection = new DatabaseSync(path)
  // Not the log of the gateway: all of it would be written twice.
  connection.exec('PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF')
  connection.exec(`PRAGMA cache_size = -${CACHE_KIB}; PRAGMA locking_mode = EXCLUSIVE; BEGIN`)
  const operations = prepareOperations(connection)
  const database: Database = {
    reader: connection,
    query: new Kysely<Schema>({ dialect: nodeSqliteDialect(connection) }),
    writer: {
      write: async (name, args) =>
        (operations[name] as (given: typeof args) => never)(args) as ReturnType<Operations[typeof name]>,
      close: async () => {},
    },
    clock,
  }
  const statements = new Map<string, StatementSync>()
  const thread: ReaderThread = {
    async read(...steps) {
      return steps.map(({ sql, parameters }) => {
        const statement = statements.get(sql) ?? connection.prepare(sql)
        statements.set(sql, statement)
        return statement.all(...parameters)
      })
    },
    of: () => thread,
    close: async () => {},
  }
  return {
    connection,
    books: createBooks(database, { of: async () => undefined, close: async () => {} }, machineClock),
    leases: createLeases(database, machineClock),
    purchases: createPurchases(database, path, thread),
    links: createLinks(database, thread, thread),
    healthChecks: createHealthChecks(database),
    figures: createFigures(database, thread, thread),
    reviews: createReviews(database, thread),
    discovery: createDiscovery(database, thread),
    stores: createStores(database),
    keys: createApiKeys(database),
    sessions: createSessions(database, thread),
    webhooks: createWebhooks(database, thread, machineClock),
    /** Writes all of it, as the file of a gateway lies there: with its log beside it. */
    commit(): void {
      connection.exec('COMMIT; PRAGMA locking_mode = NORMAL; PRAGMA journal_mode = WAL')
      connection.close()
    },
  }
}

export type DirectStore = Awaited<ReturnType<typeof openDirect>>
