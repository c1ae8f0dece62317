import type { BrowserSession } from '../../../core/domain/browserSession.ts'
import type { LedgerEntry } from '../../../core/domain/ledger.ts'
import type { Link } from '../../../core/domain/link.ts'
import type { PaymentRecord, StoredAnswer } from '../../../core/domain/payment.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import type { Refund } from '../../../core/domain/refund.ts'
import type { Review } from '../../../core/domain/review.ts'
import type { Session } from '../../../core/domain/session.ts'
import type { ApiKey, SignInNonce, Store, StoreWallet } from '../../../core/domain/store.ts'
import type {
  WebhookDelivery,
  WebhookEndpoint,
  WebhookEvent,
  WebhookTry,
} from '../../../core/domain/webhook.ts'
import { type Clock, machineClock } from '../../../core/ports/clock.ts'
import type { Durability } from '../../../core/ports/store/books.ts'
import type { Change } from '../../../core/ports/store/changes.ts'
import type { Traffic } from '../../../core/ports/store/figures.ts'
import type { GasOfStore } from '../../../core/ports/store/gasBook.ts'
import type { CheckQueue } from '../../../core/ports/store/healthChecks.ts'
import type { Letter } from '../../../core/ports/store/letters.ts'
import type { HealthEvent } from '../../../core/ports/store/links.ts'
import type { StoredPicture } from '../../../core/ports/store/pictures.ts'
import type { NewSession } from '../../../core/ports/store/sessions.ts'
import { Journal, Table } from './journal.ts'

export interface PaymentRow extends Omit<PaymentRecord, 'hasAnswer'> {
  readonly answer: StoredAnswer | null
  /** By the store's clock; null: nobody has to look at it. */
  readonly dueAtMs: number | null
}

export interface BookedPurchase {
  readonly purchase: Purchase
  readonly event: string | null
  /** By a wallet that was the store's own when it bought. */
  readonly isOwn: boolean
}

export interface LeaseRow {
  readonly id: number
  readonly name: string
  readonly ttlMs: number
  readonly expiresAtMs: number
}

export interface FormerName {
  readonly storeId: string
  readonly expiresAtMs: number
}

export interface FormerSlug extends FormerName {
  readonly slug: string
  readonly linkId: string
}

export interface EventRow extends WebhookEvent {
  /** Null until it was spread. */
  readonly body: string | null
}

export interface DeliveryRow extends Omit<WebhookDelivery, 'dueAtMs' | 'eventId' | 'kind'> {
  readonly n: number
  readonly seq: number
  readonly storeId: string
  readonly dueAtMs: number
  readonly taking: number
  /** By the store's clock; null: nobody has it in hand. */
  readonly leasedUntilMs: number | null
  readonly log: readonly WebhookTry[]
}

export interface LinkCheckRow {
  /** Null: it is not asked. */
  readonly dueAtMs: number | null
  readonly queue: CheckQueue
  readonly calledAtMs: number
  readonly last: HealthEvent | null
}

export interface CheckHourRow {
  readonly linkId: string
  readonly hour: number
  readonly checks: number
  readonly failed: number
  readonly sumMs: number
  readonly maxMs: number
}

export interface SessionRow extends Session {
  readonly idempotency: NewSession['idempotency']
}

/** The tables of a store in memory. Rows are replaced and never changed. */
export interface Tables {
  readonly payments: Table<number, PaymentRow>
  readonly rowOfKey: Table<string, number>
  /** Rows that somebody works on, and rows that somebody has to look at. */
  readonly leased: Table<number, number>
  readonly due: Table<number, number>
  readonly leases: Table<string, LeaseRow>
  readonly purchases: Table<number, BookedPurchase>
  readonly rowOfPurchase: Table<string, number>
  /** By network, transaction and event. */
  readonly rowOfTransfer: Table<string, number>
  readonly refunds: Table<number, Omit<Refund, 'purchaseId'>>
  readonly ledger: Table<string, readonly LedgerEntry[]>
  /** By link and hour. */
  readonly traffic: Table<string, Traffic>
  readonly links: Table<string, Link>
  readonly formerSlugs: Table<string, FormerSlug>
  readonly suspensions: Table<string, readonly number[]>
  readonly health: Table<string, readonly HealthEvent[]>
  /** By link: when its API is asked, and what was seen last. */
  readonly linkChecks: Table<string, LinkCheckRow>
  /** By link and hour. */
  readonly checkHours: Table<string, CheckHourRow>
  /** By purchase. */
  readonly reviews: Table<string, Review>
  /** By link, as it was last counted. */
  readonly popularity: Table<string, { readonly buyers: number; readonly popularity: number }>
  readonly stores: Table<string, Store>
  /** By store: since when it is paid to its wallets. */
  readonly paidSince: Table<string, { readonly base: number; readonly solana: number }>
  /** By store. */
  readonly pictures: Table<string, StoredPicture>
  readonly wallets: Table<string, StoreWallet>
  readonly formerNames: Table<string, FormerName>
  readonly renames: Table<string, readonly number[]>
  readonly keys: Table<string, ApiKey>
  readonly nonces: Table<string, SignInNonce>
  readonly signups: Table<string, FormerName>
  readonly browserSessions: Table<string, BrowserSession>
  /** By network, store and day. */
  readonly gas: Table<string, GasOfStore & { readonly network: string }>
  readonly endpoints: Table<string, WebhookEndpoint>
  readonly events: Table<number, EventRow>
  readonly deliveries: Table<string, DeliveryRow>
  readonly sessions: Table<string, SessionRow>
}

/** What several processes of a test share: one store's tables, its clock, and the switch of its power. */
export interface Memory {
  readonly tables: Tables
  readonly storeClock: Clock
  /** A number that was never given out before: of a row, or of a lease. */
  nextId(): number
  /** All of it or, when it throws, nothing. Tells of links and stores that it changed. */
  write<T>(durability: Durability, run: () => T): T
  /** Notes what a write changes, to be told once it stands. */
  note(change: Change): void
  /** Letters that nobody has heard yet, and who hears those of a lease; a power cut loses them. */
  readonly letters: { waiting: Letter[]; readonly listeners: Map<number, (letter: Letter) => void> }
  /** Hears of changes by any process. @returns a function that ends it. */
  hear(listener: (change: Change) => void): () => void
  /** Everything that was visible so far is on disk: what a store does by itself after a second. */
  flush(): void
  /** Forgets what was `visible` and not flushed since, as a power cut does. Its processes are over, too: open them anew. */
  powerCut(): void
}

/** @param storeClock a machine's time, for leases and due times; a smaller one than before is a reboot. */
export function createMemory(storeClock: Clock = machineClock): Memory {
  const journal = new Journal()
  const table = <K, V>() => new Table<K, V>(journal)
  const tables: Tables = {
    payments: table(),
    rowOfKey: table(),
    leased: table(),
    due: table(),
    leases: table(),
    purchases: table(),
    rowOfPurchase: table(),
    rowOfTransfer: table(),
    refunds: table(),
    ledger: table(),
    traffic: table(),
    links: table(),
    formerSlugs: table(),
    suspensions: table(),
    health: table(),
    linkChecks: table(),
    checkHours: table(),
    reviews: table(),
    popularity: table(),
    stores: table(),
    paidSince: table(),
    pictures: table(),
    wallets: table(),
    formerNames: table(),
    renames: table(),
    keys: table(),
    nonces: table(),
    signups: table(),
    browserSessions: table(),
    gas: table(),
    endpoints: table(),
    events: table(),
    deliveries: table(),
    sessions: table(),
  }
  const listeners = new Set<(change: Change) => void>()
  const letters = { waiting: [] as Letter[], listeners: new Map<number, (letter: Letter) => void>() }
  let noted: Change[] = []
  let lastId = 0

  function tell(): void {
    const told = noted
    noted = []
    for (const change of told) for (const listener of [...listeners]) listener(change)
  }

  return {
    tables,
    storeClock,
    nextId: () => ++lastId,
    write(durability, run) {
      const mark = journal.mark
      try {
        const result = run()
        if (durability === 'flushed') journal.flush()
        tell()
        return result
      } catch (error) {
        journal.takeBack(mark)
        noted = []
        throw error
      }
    },
    note: (change) => void noted.push(change),
    letters,
    hear(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    flush: () => journal.flush(),
    powerCut() {
      journal.takeBack(0)
      listeners.clear()
      letters.listeners.clear()
      letters.waiting = []
    },
  }
}
