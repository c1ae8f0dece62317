import type {
  DisabledReason,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookEvent,
  WebhookKind,
  WebhookTry,
} from '../../domain/webhook.ts'
import { CLOCK_BEHIND_MS } from './leases.ts'

/** Longest a delivery that was taken is its taker's, by the store's clock: a try's timeout, and time to write it down. */
export const DELIVERY_LEASE_MS = 30_000
/**
 * Nobody's delivery is one whose lease ends later than in this time: it was given before the machine's last start, or before the clock was
 * set back. Whoever takes some may have read the clock before another took them.
 */
export const LONGEST_HELD_MS = DELIVERY_LEASE_MS + CLOCK_BEHIND_MS
/** Deliveries of one store, and of one endpoint, that are on their way at once, whichever processes take them. */
export const AT_ONCE_PER_STORE = 16
export const AT_ONCE_PER_ENDPOINT = 8
/** No try is further ahead: a due time beyond was set by a clock that has been put back since, and counts as due. */
export const LONGEST_WAIT_MS = 25 * 60 * 60 * 1000
/** Events and their deliveries are kept this long. */
export const EVENTS_KEPT_MS = 30 * 24 * 60 * 60 * 1000
/** Latest tries of a delivery that are kept. */
export const TRIES_KEPT = 20
/** Purchases so soon after their endpoint began to listen may have been booked before it. */
export const LISTENING_DOUBT_MS = 60_000

export type NewEndpoint = Pick<
  WebhookEndpoint,
  'id' | 'storeId' | 'url' | 'description' | 'kinds' | 'salt' | 'createdAtMs'
>

export interface EndpointPatch {
  readonly url?: string
  readonly description?: string
  readonly kinds?: readonly WebhookKind[]
  /** Enabling forgets that it was failing; what was held is due at once. */
  readonly isEnabled?: boolean
  /** A new secret; the one before signs as well until then. */
  readonly rotation?: { readonly salt: string; readonly previousUntilMs: number }
}

/** A delivery in hand: one try is its taker's to make. */
export interface TakenDelivery {
  readonly id: string
  /** Fencing token: grows with every taking. */
  readonly taking: number
  /** Tries that are over. */
  readonly tries: number
  readonly event: Pick<WebhookEvent, 'id' | 'kind' | 'atMs'>
  readonly body: string
  readonly endpoint: WebhookEndpoint
}

export interface TryOutcome {
  readonly id: string
  /** Condition: nobody has taken it since. */
  readonly taking: number
  /** Null: it was broken off, and no try is counted. */
  readonly try: WebhookTry | null
  readonly to: 'delivered' | 'failed' | 'waiting'
  /** Of `waiting`. */
  readonly dueAtMs?: number
  /** Disables the endpoint, when it is enabled; with `ifFailingSinceMs` only when no try got through since then. */
  readonly disable?: { readonly reason: DisabledReason; readonly ifFailingSinceMs?: number }
}

export interface DeliveryPage {
  readonly deliveries: readonly WebhookDelivery[]
  /** Opaque; null on the last page. */
  readonly nextCursor: string | null
}

/**
 * The endpoints of stores, and the outbox: what happened, and where it still has to be told. What every implementation
 * promises by itself:
 *
 * - An event is written in the commit of what it tells (`Books.apply`, `Links.setSuspension`, `Reviews.add`), when an enabled
 *   endpoint of that store asks for its kind, and costs nothing else otherwise. `purchase.confirmed` is written once of a purchase.
 * - The `webhookUrl` of a link is an endpoint of the link's id, in the commit that sets it, whoever writes the link; clearing it
 *   removes the endpoint.
 * - Leases are by the store's clock; due times are people's, because hours have to survive a restart of the machine.
 * - Every method rejects with `store_unavailable` when the store can not say.
 */
export interface Webhooks {
  /** @param most endpoints that the store may have, those of links not counted @throws `LIMIT_REACHED` */
  create(endpoint: NewEndpoint, most: number): Promise<void>
  find(id: string): Promise<WebhookEndpoint | undefined>
  /** Oldest first, those of links that are there among them. */
  ofStore(storeId: string): Promise<WebhookEndpoint[]>
  /** @returns as it is then; undefined when there is none */
  change(id: string, patch: EndpointPatch, atMs: number): Promise<WebhookEndpoint | undefined>
  /** With its deliveries. @returns false when there is none, or it is a link's */
  remove(id: string): Promise<boolean>
  /** Writes a `test` event for one endpoint. @returns the event's id; undefined when there is no such endpoint that is enabled */
  test(id: string, eventId: string, atMs: number): Promise<string | undefined>

  /** Newest first. */
  deliveries(endpointId: string, options: { cursor?: string; limit: number }): Promise<DeliveryPage>
  /** With its body and its latest tries, oldest first. */
  delivery(
    id: string,
  ): Promise<
    | { readonly delivery: WebhookDelivery; readonly body: string; readonly tries: readonly WebhookTry[] }
    | undefined
  >
  /** Makes a delivery due at once, with a schedule from its beginning. @returns false when its endpoint is disabled or gone */
  replay(id: string, atMs: number): Promise<boolean>

  /** Events that nobody has made deliveries of yet, oldest first. */
  unspread(limit: number): Promise<WebhookEvent[]>
  /**
   * Gives events the bodies that stay theirs, and makes a delivery for each endpoint that asks for them. Of two processes that
   * spread the same event, the first one's body counts.
   */
  spread(events: readonly { readonly seq: number; readonly body: string }[], atMs: number): Promise<void>
  /**
   * Takes deliveries that are due, for {@link DELIVERY_LEASE_MS}. Stores take turns, and so do the endpoints of one store: at most
   * {@link AT_ONCE_PER_STORE} and {@link AT_ONCE_PER_ENDPOINT} are in hands at once, one only of an endpoint that is failing, the oldest first. Of
   * very many stores that wait it looks at some and goes on from there the next time. Writes only when something is due.
   */
  take(options: { limit: number; nowMs: number }): Promise<TakenDelivery[]>
  /** Ends a taking. @returns false when it was over, and somebody else has taken the delivery: nothing is written then */
  note(outcome: TryOutcome): Promise<boolean>
  /**
   * Removes events before this time with their deliveries, but none that waits to be sent: a clock that is ahead for a moment
   * loses nothing.
   *
   * @returns how many events; whoever gets `limit` asks again
   */
  forget(beforeMs: number, limit: number): Promise<number>
}
