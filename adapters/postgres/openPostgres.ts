import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Changes } from '../../core/ports/store/changes.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import { createBooks } from './books/books.ts'
import { createGroupCommit, MOST_GROUPS } from './books/groupCommit.ts'
import { createLeases } from './books/leases.ts'
import { createPurchases } from './books/purchases.ts'
import { startChanges } from './changes/changes.ts'
import { createNotices } from './changes/notices.ts'
import { checkConnection } from './checkConnection.ts'
import { connectPool, queryLayer } from './connect.ts'
import type { Database } from './database.ts'
import { createDiscovery } from './discovery.ts'
import { createFees } from './fees.ts'
import { createFigures } from './figures.ts'
import { createGasBook } from './gasBook.ts'
import { createLetters } from './letters.ts'
import { createHealthChecks } from './links/healthChecks.ts'
import { createLinks } from './links/links.ts'
import { createReviews } from './links/reviews.ts'
import { migrate } from './migrate.ts'
import { createServerClock, type ServerClock } from './serverClock.ts'
import { createSessions } from './sessions.ts'
import { createApiKeys } from './stores/apiKeys.ts'
import { createBrowserSessions } from './stores/browserSessions.ts'
import { createOversight } from './stores/oversight.ts'
import { createPictures } from './stores/pictures.ts'
import { createSignInNonces } from './stores/signInNonces.ts'
import { createStores } from './stores/stores.ts'
import { createWebhooks } from './webhooks.ts'

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with parameters such as `sslmode` as libpq knows them. */
  readonly url: string
  /** The schema that holds the tables; it is made when it is missing. Default: `tollgate`. */
  readonly schema?: string | undefined
  /** Connections of this process at the same time. Default: 16. */
  readonly maxConnections?: number | undefined
  /** People's time. */
  readonly clock: Clock
  /** How often it is looked for changes that no notice told of. Default: 500 ms. */
  readonly pollMs?: number | undefined
  /** Stands in for the server's clock, in tests. */
  readonly storeClock?: Clock
  /** Judges that clock, in tests; by default one that is handed in may be set as its owner likes. */
  readonly serverClock?: ServerClock
  readonly log: Log
}

/** The store for many gateways: PostgreSQL 13 and up, shared by any number of processes on any number of machines. */
export interface PostgresStore extends DataStore {
  /** For the other modules of this folder. */
  readonly database: Database
}

/** After so long without an answer the server counts as away, in ms. */
const HEALTH_MS = 2_000

const alwaysSteady: ServerClock = { heard() {}, window: { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } }

/**
 * Connects, and makes or migrates the tables.
 *
 * @throws `store_unavailable` when the server does not answer; an error in words when a newer version wrote the tables, the server is a
 * standby, or a pooler is between that does not do
 */
export async function openPostgres(options: PostgresOptions): Promise<PostgresStore> {
  const { url, schema = 'tollgate', maxConnections = 16, clock, storeClock, log } = options
  const connection = { url, schema, connectTimeoutMs: 1_000, queryTimeoutMs: 10_000, log }
  // Whoever reads keeps no payment waiting for a connection.
  const forGroups = Math.max(1, Math.min(MOST_GROUPS, Math.floor(maxConnections / 2)))
  const forOthers = Math.max(1, maxConnections - forGroups)
  const pool = connectPool({ ...connection, maxConnections: forOthers })
  const query = queryLayer(pool)
  const storeNow = () =>
    storeClock === undefined
      ? sql<number>`(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
      : sql<number>`${storeClock.now()}::bigint`
  const notices = createNotices({ url, schema, log })
  let changes: Changes
  try {
    await checkConnection(pool, schema)
    const applied = await migrate(query, schema)
    if (applied > 0) log.info({ schema, applied }, 'Made the tables current.')
    changes = await startChanges({ pool, query }, { notices, log, pollMs: options.pollMs })
  } catch (error) {
    await pool.end()
    throw error
  }
  const storeNowMs = () => storeClock?.now() ?? null
  const serverClock =
    options.serverClock ??
    (storeClock === undefined ? createServerClock(() => performance.now()) : alwaysSteady)
  const database: Database = { pool, query, clock, storeNow, storeNowMs }
  const groupPool = connectPool({ ...connection, maxConnections: forGroups })
  const group = createGroupCommit(groupPool, clock, storeNowMs)
  const letters = createLetters(pool, notices, log)
  return {
    books: createBooks(pool, group, storeNowMs, serverClock),
    leases: createLeases(pool, storeNowMs, serverClock),
    letters,
    purchases: createPurchases(database),
    fees: createFees(database),
    links: createLinks(database),
    healthChecks: createHealthChecks(database),
    figures: createFigures(database),
    reviews: createReviews(database),
    // Nor does whoever searches keep links waiting that are called: strangers may search for what takes long.
    discovery: createDiscovery(database, Math.max(1, Math.floor(forOthers / 4))),
    stores: createStores(database),
    pictures: createPictures(database),
    keys: createApiKeys(database),
    nonces: createSignInNonces(database),
    browserSessions: createBrowserSessions(database),
    changes,
    gas: createGasBook(database),
    webhooks: createWebhooks(database),
    sessions: createSessions(database),
    oversight: createOversight(database),
    database,

    async health() {
      try {
        // Whoever asks is a balancer, which waits for a few seconds itself.
        const late = wait(HEALTH_MS, undefined, { ref: false }).then(() => {
          throw new Error(`no answer in ${HEALTH_MS} ms`)
        })
        // A row is written: a server that is a standby now still answers reads, as one whose disk is full does.
        const written = sql`INSERT INTO probes (id, at_ms, room) VALUES (1, ${clock.now()}, '')
          ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms`.execute(query)
        await Promise.race([written, late])
        return group.noRoom === undefined ? [] : [`PostgreSQL takes no writes: ${group.noRoom}`]
      } catch (error) {
        return [`PostgreSQL takes no writes: ${(error as Error).message}`]
      }
    },

    async close() {
      if (pool.ending) return
      await letters.close()
      await Promise.all([changes.close(), notices.close(), group.close()])
      if (!pool.ending) await pool.end()
    },
  }
}
