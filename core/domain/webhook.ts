import { randomUUID } from 'node:crypto'
import type { LinkId, StoreId } from './link.ts'

/** Everything that an endpoint may ask to hear of. */
export const webhookKinds = [
  'purchase.confirmed',
  'payment.confirmed',
  'payment.expired',
  'refund.due',
  'refund.recorded',
  'link.suspended',
  'review.created',
  'test',
] as const

export type WebhookKind = (typeof webhookKinds)[number]

/**
 * What the `webhookUrl` of a link hears of. The marketplace interface (section 6) knows this kind only: its receivers take
 * whatever comes for a sale.
 */
export const kindsOfLinks: readonly WebhookKind[] = ['purchase.confirmed', 'test']

/** `gone`: it answered 410. `failing`: nothing got through for a whole schedule of tries. `seller`: its seller's wish. */
export type DisabledReason = 'gone' | 'failing' | 'seller'

/** An address that a store's events are sent to. */
export interface WebhookEndpoint {
  /** The link's own id where it is the `webhookUrl` of a link. */
  readonly id: string
  readonly storeId: StoreId
  /** Null: it hears of every link of the store. */
  readonly linkId: LinkId | null
  readonly url: string
  readonly description: string
  readonly kinds: readonly WebhookKind[]
  /** What its secret is derived from, beside the server's own. */
  readonly salt: string
  /** The same of the secret before this one, which signs as well until then. */
  readonly previousSalt: string | null
  readonly previousUntilMs: number | null
  /** Nothing is sent, and nothing new is kept for it, from then on; null: it is enabled. */
  readonly disabledAtMs: number | null
  readonly disabledReason: DisabledReason | null
  /** The first try that failed since one got through; null after one that did. */
  readonly failingSinceMs: number | null
  /** Since when it hears of what it asks for now: the ledger check demands an event of every purchase since. */
  readonly listeningSinceMs: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** Something that happened, kept in the commit that made it so. */
export interface WebhookEvent {
  /** In the order of their commits. */
  readonly seq: number
  /** `webhook-id`: the same for every try, every endpoint and every replay. */
  readonly id: string
  readonly kind: WebhookKind
  readonly storeId: StoreId
  readonly linkId: LinkId | null
  readonly purchaseId: string | null
  /** The payment session that it is about; null for none. */
  readonly sessionId: string | null
  /** Of a test: the one endpoint that hears of it. */
  readonly endpointId: string | null
  /** Of `refund.due`: why. JSON of the suspension (`link.suspended`), or of the review (`review.created`). */
  readonly detail: string | null
  readonly atMs: number
}

/** `held`: its endpoint is disabled, and it goes on when that ends. `failed`: the last try of its schedule is over. */
export type DeliveryState = 'waiting' | 'held' | 'delivered' | 'failed'

/** One event on its way to one endpoint. */
export interface WebhookDelivery {
  readonly id: string
  readonly endpointId: string
  readonly eventId: string
  readonly kind: WebhookKind
  readonly state: DeliveryState
  /** Tries that are over, since it was made or last replayed. */
  readonly tries: number
  /** When it is tried next; null when it is not. */
  readonly dueAtMs: number | null
  readonly createdAtMs: number
}

/** How one try ended. */
export interface WebhookTry {
  readonly atMs: number
  /** Null when there was no answer. */
  readonly status: number | null
  readonly latencyMs: number
  /** Why it does not count as delivered, in words for the seller; null when it does. */
  readonly error: string | null
  /** The first bytes of the answer. */
  readonly answer: string
}

/** `webhook-id` of an event. */
export const newEventId = (): string => `msg_${randomUUID().replaceAll('-', '')}`
