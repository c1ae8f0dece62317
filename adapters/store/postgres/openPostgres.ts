import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Changes } from '../../../core/ports/store/changes.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { createApiKeys } from '../repositories/apiKeys.ts'
import { createBrowserSessions } from '../repositories/browserSessions.ts'
import { createChannelBooks } from '../repositories/channelBookReads.ts'
import { createChannels } from '../repositories/channels.ts'
import { createGasBook } from '../repositories/gasBook.ts'
import { createImages } from '../repositories/images.ts'
import { createLeases, type SharedClock, steady } from '../repositories/leases.ts'
import { createHealthChecks } from '../repositories/links/healthChecks.ts'
import { createLinks } from '../repositories/links/links.ts'
import { createPaymentSessions } from '../repositories/paymentSessions.ts'
import { createPayments } from '../repositories/payments.ts'
import { createRetention } from '../repositories/retention.ts'
import { createReviews } from '../repositories/reviews.ts'
import { createSignInNonces } from '../repositories/signInNonces.ts'
import { createStores } from '../repositories/stores.ts'
import { createWebhooks } from '../repositories/webhooks/webhooks.ts'
import { callsTo, readsOf, storeNowOf } from './calls.ts'
import { startChanges } from './changes/changes.ts'
import { createNotices } from './changes/notices.ts'
import { createChannelCharges } from './channelCharges.ts'
import { checkConnection, connectPool, createServerClock, queryLayer } from './connect.ts'
import type { Database } from './database.ts'
import { createDiscovery } from './discovery.ts'
import { createGroupCommit, MAX_GROUPS } from './ledger/groupCommit.ts'
import { createLedger } from './ledger/ledger.ts'
import { createFees, createPurchases } from './ledger/purchases.ts'
import { createLinkReads } from './links.ts'
import { createMessages } from './mailbox.ts'
import { migrate } from './migrate.ts'
import { createStats } from './stats.ts'
import { createOperatorView } from './stores/operatorView.ts'

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with the parameters of libpq, such as `sslmode`. */
  readonly url: string
  /** The schema of the tables, which is created if it is missing. Default `tollgate`. */
  readonly schema?: string | undefined
  /** Maximum number of connections that this process opens. Default 16. */
  readonly maxConnections?: number | undefined
  /** Wall-clock time. */
  readonly clock: Clock
  /** How often this process polls for changes, in ms. Polling is needed because notices can be lost. Default 500. */
  readonly pollMs?: number | undefined
  /** Replaces the server's clock in tests. */
  readonly storeClock?: Clock
  /** Judges whether the server's clock was set. For tests. A clock in `storeClock` is never judged by default. */
  readonly serverClock?: SharedClock
  readonly log: Log
}

/** The database for many gateways. It is PostgreSQL 13 or newer, shared by any number of processes on any number of machines. */
export interface PostgresStore extends DataStore {
  /** The connections, for the other modules of this folder. */
  readonly database: Database
}

/** Time without a response after which the server counts as down, in ms. */
const HEALTH_MS = 2_000

/**
 * Connects, and creates or migrates the tables.
 *
 * @throws `store_unavailable` if the server does not respond; another error if a newer version wrote the tables, the server is a
 * standby, or a pooler in between does not meet the conditions of `checkConnection`
 */
export async function openPostgres(options: PostgresOptions): Promise<PostgresStore> {
  const { url, schema = 'tollgate', maxConnections = 16, clock, storeClock, log } = options
  const connection = { url, schema, connectTimeoutMs: 1_000, queryTimeoutMs: 10_000, log }
  // Ledger writes have connections of their own, so that reads never delay a payment.
  const forGroups = Math.max(1, Math.min(MAX_GROUPS, Math.floor(maxConnections / 2)))
  const forOthers = Math.max(1, maxConnections - forGroups)
  const pool = connectPool({ ...connection, maxConnections: forOthers })
  const query = queryLayer(pool)
  const notices = createNotices({ url, schema, log })
  let changes: Changes
  try {
    await checkConnection(pool, schema)
    const applied = await migrate(query, schema)
    if (applied > 0) log.info({ schema, applied }, 'Migrated the database.')
    changes = await startChanges({ pool, query }, { notices, log, pollMs: options.pollMs })
  } catch (error) {
    await pool.end()
    throw error
  }
  const storeNowMs = () => storeClock?.now() ?? null
  const serverClock =
    options.serverClock ?? (storeClock === undefined ? createServerClock(() => performance.now()) : steady)
  const database: Database = { pool, query, clock, storeNowMs }
  const calls = callsTo(database, Math.max(1, Math.floor(forOthers / 2)))
  const reads = readsOf(pool)
  const shared = { calls, reads, storeNow: () => storeNowOf(database), clock: serverClock }
  const groupPool = connectPool({ ...connection, maxConnections: forGroups })
  const group = createGroupCommit(groupPool, clock, storeNowMs)
  const mailbox = createMessages(pool, notices, log)
  return {
    ledger: {
      ...createLedger(pool, group, storeNowMs),
      ...createPayments(shared),
      ...createRetention(calls, reads),
    },
    leases: createLeases(shared),
    mailbox,
    purchases: createPurchases(database),
    fees: createFees(database),
    links: createLinks(calls, { reads, readsFor: () => reads, own: createLinkReads(query, reads) }),
    healthChecks: createHealthChecks(calls, reads),
    stats: createStats(database),
    reviews: createReviews(calls, () => reads),
    // Searches have a limit of their own, so that visitors' slow searches never delay calls of links.
    discovery: createDiscovery(database, Math.max(1, Math.floor(forOthers / 4))),
    stores: createStores(calls, reads),
    images: createImages(calls, reads),
    keys: createApiKeys(calls, reads),
    nonces: createSignInNonces(calls, reads),
    browserSessions: createBrowserSessions(calls, reads),
    changes,
    channels: { ...createChannels(calls, reads), charge: createChannelCharges(database) },
    channelBooks: createChannelBooks(calls, () => reads),
    gas: createGasBook(calls, reads),
    webhooks: createWebhooks(calls, reads, () => reads),
    sessions: createPaymentSessions(calls, reads, () => reads),
    operatorView: createOperatorView(database),
    database,

    async health() {
      try {
        // Load balancers request this and wait only a few seconds.
        const late = wait(HEALTH_MS, undefined, { ref: false }).then(() => {
          throw new Error(`no response in ${HEALTH_MS} ms`)
        })
        // The check writes a row, because a standby and a server with a full disk still serve reads.
        const written = sql`INSERT INTO probes (id, at_ms, room) VALUES (1, ${clock.now()}, '')
          ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms`.execute(query)
        await Promise.race([written, late])
        return group.noRoom === undefined ? [] : [`PostgreSQL accepts no writes: ${group.noRoom}`]
      } catch (error) {
        return [`PostgreSQL accepts no writes: ${(error as Error).message}`]
      }
    },

    async close() {
      if (pool.ending) return
      await mailbox.close()
      await Promise.all([changes.close(), notices.close(), group.close()])
      if (!pool.ending) await pool.end()
    },
  }
}
