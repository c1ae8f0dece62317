import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { createApiKeys } from '../../adapters/store/repositories/apiKeys.ts'
import { createLeases, steady } from '../../adapters/store/repositories/leases.ts'
import { createHealthChecks } from '../../adapters/store/repositories/links/healthChecks.ts'
import { createLinks } from '../../adapters/store/repositories/links/links.ts'
import { createPaymentSessions } from '../../adapters/store/repositories/paymentSessions.ts'
import { createPayments } from '../../adapters/store/repositories/payments.ts'
import { createRetention } from '../../adapters/store/repositories/retention.ts'
import { createReviews } from '../../adapters/store/repositories/reviews.ts'
import { createStores } from '../../adapters/store/repositories/stores.ts'
import { createWebhooks } from '../../adapters/store/repositories/webhooks/webhooks.ts'
import type { Schema } from '../../adapters/store/sql/schema.ts'
import { type Operations, prepareOperations } from '../../adapters/store/sqlite/commit/operations.ts'
import type { Database } from '../../adapters/store/sqlite/connect.ts'
import { createDiscovery } from '../../adapters/store/sqlite/discovery.ts'
import { createLinkReads } from '../../adapters/store/sqlite/links.ts'
import { nodeSqliteDialect } from '../../adapters/store/sqlite/nodeSqliteDialect.ts'
import { callsTo, openSqlite } from '../../adapters/store/sqlite/openSqlite.ts'
import { createLedger } from '../../adapters/store/sqlite/payments/ledger.ts'
import { createPurchases } from '../../adapters/store/sqlite/payments/purchases.ts'
import type { ReaderThread } from '../../adapters/store/sqlite/reader/readerThread.ts'
import { createStats } from '../../adapters/store/sqlite/stats.ts'
import { readsOf } from '../../adapters/store/sqlite/templates.ts'
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
  const calls = callsTo(database.writer, clock, machineClock)
  const reads = readsOf(connection)
  const shared = { calls, reads, storeNow: () => machineClock.now(), clock: steady }
  return {
    connection,
    ledger: {
      ...createLedger(database, { of: async () => undefined, close: async () => {} }, machineClock),
      ...createPayments(shared),
      ...createRetention(calls, reads),
    },
    leases: createLeases(shared),
    purchases: createPurchases(database, path, thread),
    links: createLinks(calls, {
      reads,
      readsFor: () => reads,
      own: createLinkReads(database, thread, thread),
    }),
    healthChecks: createHealthChecks(calls, reads),
    stats: createStats(database, thread, thread),
    reviews: createReviews(calls, () => reads),
    discovery: createDiscovery(database, thread),
    stores: createStores(calls, reads),
    keys: createApiKeys(calls, reads),
    sessions: createPaymentSessions(calls, reads, () => reads),
    webhooks: createWebhooks(calls, reads, () => reads),
    /** Writes all of it, as the file of a gateway lies there: with its log beside it. */
    commit(): void {
      connection.exec('COMMIT; PRAGMA locking_mode = NORMAL; PRAGMA journal_mode = WAL')
      connection.close()
    },
  }
}

export type DirectStore = Awaited<ReturnType<typeof openDirect>>
