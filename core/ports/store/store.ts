import type { Books } from './books.ts'
import type { BrowserSessions } from './browserSessions.ts'
import type { Changes } from './changes.ts'
import type { Discovery } from './discovery.ts'
import type { Fees } from './fees.ts'
import type { Figures } from './figures.ts'
import type { GasBook } from './gasBook.ts'
import type { HealthChecks } from './healthChecks.ts'
import type { Leases } from './leases.ts'
import type { Letters } from './letters.ts'
import type { Links } from './links.ts'
import type { Oversight } from './oversight.ts'
import type { Pictures } from './pictures.ts'
import type { Purchases } from './purchases.ts'
import type { Reviews } from './reviews.ts'
import type { Sessions } from './sessions.ts'
import type { ApiKeys, SignInNonces, Stores } from './stores.ts'
import type { Webhooks } from './webhooks.ts'

/**
 * Everything that one store keeps, in one set of tables. Several processes may use the same one.
 *
 * What every implementation promises beyond its parts:
 *
 * - Each process hears through `changes` of every change of a link or a store, by whichever process, trigger or tool it was
 *   made, within a second; none is lost when a process dies after its commit. What can't be told one by one any more (the
 *   listener slept too long) is told as a change of every store.
 * - A former username belongs to the store that it leads to, as long as it does: nobody else gets it, however it is tried.
 * - After close() every call rejects with `store_unavailable`.
 */
export interface DataStore {
  readonly books: Books
  readonly leases: Leases
  readonly letters: Letters
  readonly purchases: Purchases
  readonly fees: Fees
  readonly figures: Figures
  readonly links: Links
  readonly healthChecks: HealthChecks
  readonly reviews: Reviews
  readonly discovery: Discovery
  readonly stores: Stores
  readonly pictures: Pictures
  readonly keys: ApiKeys
  readonly nonces: SignInNonces
  readonly browserSessions: BrowserSessions
  readonly gas: GasBook
  readonly webhooks: Webhooks
  readonly sessions: Sessions
  readonly oversight: Oversight
  readonly changes: Changes
  /** What is wrong with the store, in words: full, read-only, not answering. Empty when a write got through. */
  health(): Promise<string[]>
  /** Writes a consistent copy while the store is in use; stores that are backed up by tools of their own have none. */
  backup?(toFile: string): Promise<void>
  /** Commits what is under way, makes it durable and closes the store. */
  close(): Promise<void>
}
