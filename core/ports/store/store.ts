import type { BrowserSessions } from './browserSessions.ts'
import type { Changes } from './changes.ts'
import type { ChannelBooks } from './channelBooks.ts'
import type { Channels } from './channels.ts'
import type { Discovery } from './discovery.ts'
import type { Fees } from './fees.ts'
import type { GasBook } from './gasBook.ts'
import type { HealthChecks } from './healthChecks.ts'
import type { Images } from './images.ts'
import type { Leases } from './leases.ts'
import type { Ledger } from './ledger.ts'
import type { Links } from './links.ts'
import type { Mailbox } from './mailbox.ts'
import type { OperatorView } from './operatorView.ts'
import type { Purchases } from './purchases.ts'
import type { Reviews } from './reviews.ts'
import type { Sessions } from './sessions.ts'
import type { Stats } from './stats.ts'
import type { ApiKeys, SignInNonces, Stores } from './stores.ts'
import type { Webhooks } from './webhooks.ts'

/**
 * A database with everything that Tollgate stores, in one set of tables. Several processes may use the same database. Every
 * implementation guarantees the following, besides the guarantees of its parts.
 *
 * - Through `changes`, each process gets every change of a link or a store by any process within a second. A change is not lost if
 *   its process dies after the commit. If the database can no longer list single changes, because the process was suspended for too
 *   long, the process gets a change of every store.
 * - While a former username redirects to a store, no other store can get that username.
 * - After close(), every call rejects with `store_unavailable`.
 */
export interface DataStore {
  readonly ledger: Ledger
  readonly leases: Leases
  readonly mailbox: Mailbox
  readonly purchases: Purchases
  readonly fees: Fees
  readonly stats: Stats
  readonly links: Links
  readonly healthChecks: HealthChecks
  readonly reviews: Reviews
  readonly discovery: Discovery
  readonly stores: Stores
  readonly images: Images
  readonly keys: ApiKeys
  readonly nonces: SignInNonces
  readonly browserSessions: BrowserSessions
  readonly channels: Channels
  readonly channelBooks: ChannelBooks
  readonly gas: GasBook
  readonly webhooks: Webhooks
  readonly sessions: Sessions
  readonly operatorView: OperatorView
  readonly changes: Changes
  /** Problems of the database as messages, such as full, read-only or not responding. Empty if a write has succeeded. */
  health(): Promise<string[]>
  /** Writes a consistent copy while the database is in use. Absent if the database has its own backup tools. */
  backup?(toFile: string): Promise<void>
  /** Commits pending writes, makes them durable and closes the database. */
  close(): Promise<void>
}
