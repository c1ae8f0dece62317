import type {
  DisabledReason,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookEvent,
  WebhookKind,
  WebhookTry,
} from '../../domain/webhook.ts'
import { CLOCK_BEHIND_MS } from './leases.ts'

/**
 * How long a taken delivery belongs to its process, in ms by the database's clock. It covers the timeout of an attempt and the time
 * to record the attempt.
 */
export const DELIVERY_LEASE_MS = 30_000
/**
 * Maximum remaining time of a delivery's lease, in ms. A lease that ends later does not count, because it was given before the
 * machine rebooted or the clock was set back. The value includes `CLOCK_BEHIND_MS`, because a reader may have read the clock before
 * another process took the delivery.
 */
export const LONGEST_HELD_MS = DELIVERY_LEASE_MS + CLOCK_BEHIND_MS
/** Maximum concurrent deliveries of one store, and of one endpoint, over all processes. */
export const AT_ONCE_PER_STORE = 16
export const AT_ONCE_PER_ENDPOINT = 8
/**
 * Maximum time until the next attempt, in ms. A later due time was set by a fast clock that has since been corrected, so it counts
 * as due.
 */
export const LONGEST_WAIT_MS = 25 * 60 * 60 * 1000
/** How long events and their deliveries are stored, in ms. */
export const EVENT_RETENTION_MS = 30 * 24 * 60 * 60 * 1000
/** Maximum recorded attempts of a delivery. The latest attempts are stored. */
export const MAX_STORED_TRIES = 20
/**
 * How long after the enabling of an endpoint a recorded purchase may lack an event, because it may have been recorded before the
 * enabling, in ms.
 */
export const LISTENING_DOUBT_MS = 60_000

export type NewEndpoint = Pick<
  WebhookEndpoint,
  'id' | 'storeId' | 'url' | 'description' | 'kinds' | 'salt' | 'createdAtMs'
>

export interface EndpointPatch {
  readonly url?: string
  readonly description?: string
  readonly kinds?: readonly WebhookKind[]
  /** Enables or disables the endpoint. Enabling resets its failures and makes held deliveries due at once. */
  readonly isEnabled?: boolean
  /** Sets a new secret. Until `previousUntilMs`, the previous secret signs too. */
  readonly rotation?: { readonly salt: string; readonly previousUntilMs: number }
}

/** A delivery that this process has taken in order to make one attempt. */
export interface TakenDelivery {
  readonly id: string
  /** Fencing token, which grows each time a process takes the delivery. */
  readonly taking: number
  /** Number of attempts that have ended. */
  readonly tries: number
  readonly event: Pick<WebhookEvent, 'id' | 'kind' | 'atMs'>
  readonly body: string
  readonly endpoint: WebhookEndpoint
}

export interface TryOutcome {
  readonly id: string
  /** Condition: no process has taken the delivery since. */
  readonly taking: number
  /** The attempt. Null if the attempt was aborted, so that it does not count. */
  readonly try: WebhookTry | null
  readonly to: 'delivered' | 'failed' | 'waiting'
  /** Time of the next attempt, if `to` is `waiting`. */
  readonly dueAtMs?: number
  /** Disables the endpoint if it is enabled. With `ifFailingSinceMs`, only if no attempt has succeeded since then. */
  readonly disable?: { readonly reason: DisabledReason; readonly ifFailingSinceMs?: number }
}

export interface DeliveryPage {
  readonly deliveries: readonly WebhookDelivery[]
  /** An opaque text. Null on the last page. */
  readonly nextCursor: string | null
}

/**
 * The endpoints of stores, and the outbox of events and the deliveries that still have to be sent. Every implementation guarantees
 * the following.
 *
 * - If an enabled endpoint of the store subscribes to a kind of event, the event is written in the commit that causes it
 *   (`Ledger.apply`, `Links.setSuspension`, `Reviews.add`). Otherwise the event costs nothing. `purchase.confirmed` is written once
 *   per purchase.
 * - The `webhookUrl` of a link is an endpoint with the link's id. Each commit that sets the url also writes the endpoint, and
 *   clearing the url removes the endpoint.
 * - Leases are by the database's clock. Due times are by wall time, because waits of hours must survive a reboot of the machine.
 * - Every method rejects with `store_unavailable` if the database does not respond.
 */
export interface Webhooks {
  /** @param most maximum endpoints of the store, without endpoints of links @throws `LIMIT_REACHED` */
  create(endpoint: NewEndpoint, most: number): Promise<void>
  find(id: string): Promise<WebhookEndpoint | undefined>
  /** The endpoints of a store, including those of links, oldest first. */
  ofStore(storeId: string): Promise<WebhookEndpoint[]>
  /** @returns the endpoint after the change. Undefined if there is none */
  change(id: string, patch: EndpointPatch, atMs: number): Promise<WebhookEndpoint | undefined>
  /** Deletes an endpoint with its deliveries. @returns false if there is none, or it belongs to a link */
  remove(id: string): Promise<boolean>
  /**
   * Writes a `test` event for one endpoint.
   *
   * @returns the event's id. Undefined if there is no such enabled endpoint
   */
  test(id: string, eventId: string, atMs: number): Promise<string | undefined>

  /** The deliveries of an endpoint, newest first. */
  deliveries(endpointId: string, options: { cursor?: string; limit: number }): Promise<DeliveryPage>
  /** A delivery with its body and its latest attempts, oldest first. */
  delivery(
    id: string,
  ): Promise<
    | { readonly delivery: WebhookDelivery; readonly body: string; readonly tries: readonly WebhookTry[] }
    | undefined
  >
  /**
   * Makes a delivery due at once, and restarts its schedule.
   *
   * @returns false if its endpoint is disabled or deleted
   */
  replay(id: string, atMs: number): Promise<boolean>

  /** Events that have no deliveries yet, oldest first. */
  awaitingFanOut(limit: number): Promise<WebhookEvent[]>
  /**
   * Sets the events' final bodies, and creates a delivery for each endpoint that subscribes to them. If two processes do this for
   * the same event, the first body stays.
   */
  fanOut(events: readonly { readonly seq: number; readonly body: string }[], atMs: number): Promise<void>
  /**
   * Takes due deliveries for {@link DELIVERY_LEASE_MS}. Stores take turns, and so do the endpoints of a store. At most
   * {@link AT_ONCE_PER_STORE} and {@link AT_ONCE_PER_ENDPOINT} are in flight at a time, and only one for a failing endpoint. An
   * endpoint's oldest delivery comes first. If very many stores wait, one call reads some of them, and the next call continues.
   * Writes only if a delivery is due.
   */
  take(options: { limit: number; nowMs: number }): Promise<TakenDelivery[]>
  /**
   * Records the end of an attempt.
   *
   * @returns false if its lease was over and another process has taken the delivery, so that nothing is written
   */
  note(outcome: TryOutcome): Promise<boolean>
  /**
   * Deletes events before this time with their deliveries. An event with a delivery that still has to be sent stays, so that a
   * briefly wrong clock loses nothing.
   *
   * @returns the number of deleted events. If the result is `limit`, the caller calls again
   */
  forget(beforeMs: number, limit: number): Promise<number>
}
