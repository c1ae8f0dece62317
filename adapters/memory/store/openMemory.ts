import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { createChanges } from '../changes.ts'
import { createAccess } from './access.ts'
import { createApiKeys } from './apiKeys.ts'
import { createBooks } from './books.ts'
import { createBrowserSessions } from './browserSessions.ts'
import { createDiscovery } from './discovery.ts'
import { createFees } from './fees.ts'
import { createFigures } from './figures.ts'
import { createGasBook } from './gasBook.ts'
import { createHealthChecks } from './healthChecks.ts'
import { createLeases } from './leases.ts'
import { createLetters } from './letters.ts'
import { createLinks } from './links.ts'
import { createMemory, type Memory } from './memory.ts'
import { createOversight } from './oversight.ts'
import { createPictures } from './pictures.ts'
import { createPurchases } from './purchases.ts'
import { createReviews } from './reviews.ts'
import { createSessions } from './sessions.ts'
import { createSignInNonces } from './signInNonces.ts'
import { createStores } from './stores.ts'
import { createWebhooks } from './webhooks.ts'

export interface MemoryStoreOptions {
  /** The tables, shared by the processes of a test. Default: of its own. */
  readonly memory?: Memory
  /** People's time. */
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * A store in this process's memory, for the simulator and for tests: every call is done when it returns, and keeps the same
 * promises as a store on disk. Open it once for each process of a test, with one {@link Memory}.
 */
export function openMemory({
  memory = createMemory(),
  clock = systemClock,
  log = silentLog,
}: MemoryStoreOptions = {}): DataStore {
  const access = createAccess(memory)
  const { tables } = memory
  const changes = createChanges()
  const end = memory.hear((change) => {
    try {
      changes.publish(change)
    } catch (error) {
      log.warn({ err: error }, 'A listener of changes failed.')
    }
  })
  return {
    books: createBooks(memory, access, clock),
    leases: createLeases(memory, access),
    letters: createLetters(memory, access, log),
    purchases: createPurchases(tables, access, clock),
    fees: createFees(tables, access),
    links: createLinks(memory, access),
    healthChecks: createHealthChecks(tables, access),
    figures: createFigures(tables, access, clock),
    reviews: createReviews(memory, access),
    discovery: createDiscovery(tables, access),
    stores: createStores(memory, access),
    oversight: createOversight(tables, access),
    pictures: createPictures(memory, access),
    keys: createApiKeys(tables, access),
    nonces: createSignInNonces(tables, access, clock),
    browserSessions: createBrowserSessions(tables, access),
    gas: createGasBook(tables, access),
    webhooks: createWebhooks(memory, access),
    sessions: createSessions(memory, access),
    changes,
    health: async () => [],
    async close() {
      access.close()
      end()
      await changes.close()
    },
  }
}
