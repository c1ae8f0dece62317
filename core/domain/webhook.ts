import { randomUUID } from 'node:crypto'
import type { LinkId, StoreId } from './link.ts'

/**
 * The events to which an endpoint may subscribe. `when` says when each is sent, and `data` names the fields besides the purchase's.
 */
export const webhookEvents = {
  'purchase.confirmed': {
    when: 'A payment is on chain and recorded as a purchase. Each purchase causes one such event.',
    data: '`status`: `settled` and `delivered` are sales',
  },
  'channel.charged': {
    when: 'Calls were charged to a payment channel. Each channel causes one such event a minute, right after the minute, with the sums of the minute, or several if it has paid for very many links.',
    data: '`channelId`, `payer`, `calls`, `amount`, `currency`, `chain`, `network`, `asset`, `from`, `to`, and `links` with `linkId`, `slug`, `title`, `calls` and `amount` of each',
  },
  'payment.confirmed': {
    when: 'A payment session was paid. The payment also causes `purchase.confirmed`.',
    data: '`session`',
  },
  'payment.expired': {
    when: 'A payment session expired after 30 minutes without a payment.',
    data: '`session`',
  },
  'refund.due': {
    when: 'The store owes a refund. Either a buyer was charged and received nothing, or a chain reorganization undid the transfer of a refund.',
    data: '`reason`',
  },
  'refund.recorded': {
    when: 'The gateway found the transfer of a refund on chain and recorded the refund. The event is sent again if the transfer left the chain and came back.',
    data: '`refund`. If the transfer came back, also `reason`: `refunded_twice` means that the store paid another refund in between',
  },
  'link.suspended': {
    when: "The gateway refuses calls of a link, because the link's API is down.",
    data: '`linkId`, `slug`, `title`, `reason`, `permanent`, `cooldownUntil`',
  },
  'review.created': { when: 'A buyer reviewed a purchase.', data: '`review`' },
  test: { when: 'You requested a test with `POST /api/v1/webhooks/{id}/test`.', data: '`webhookId`' },
} as const

export type WebhookKind = keyof typeof webhookEvents

export const webhookKinds = Object.keys(webhookEvents) as readonly WebhookKind[]

/** `gone`: the endpoint returned 410. `failing`: every attempt of a whole schedule has failed. `seller`: the seller disabled it. */
export type DisabledReason = 'gone' | 'failing' | 'seller'

/** An address to which a store's events are sent. */
export interface WebhookEndpoint {
  /** The endpoint's id. For the `webhookUrl` of a link, this is the link's id. */
  readonly id: string
  readonly storeId: StoreId
  /** The link whose events the endpoint gets. Null if it gets the events of every link of the store. */
  readonly linkId: LinkId | null
  readonly url: string
  readonly description: string
  readonly kinds: readonly WebhookKind[]
  /** Text from which the endpoint's secret is derived, together with the server's own secret. */
  readonly salt: string
  /** The salt of the previous secret, which also signs until `previousUntilMs`. Null if there is none. */
  readonly previousSalt: string | null
  readonly previousUntilMs: number | null
  /** When the endpoint was disabled. Since then it gets nothing, and no new events are stored for it. Null while it is enabled. */
  readonly disabledAtMs: number | null
  readonly disabledReason: DisabledReason | null
  /** Time of the first failed attempt since the last successful one. Null after a successful attempt. */
  readonly failingSinceMs: number | null
  /** When the endpoint subscribed to its current kinds of events. The ledger check requires an event for every later purchase. */
  readonly listeningSinceMs: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** An event. The commit that caused the event also stores it. */
export interface WebhookEvent {
  /** Number in the order of the commits. */
  readonly seq: number
  /** Value of `webhook-id`, which is the same for every attempt, every endpoint and every replay. */
  readonly id: string
  readonly kind: WebhookKind
  readonly storeId: StoreId
  readonly linkId: LinkId | null
  readonly purchaseId: string | null
  /** The payment session of the event. Null if there is none. */
  readonly sessionId: string | null
  /** The only endpoint that gets a test event. Null for other events. */
  readonly endpointId: string | null
  /** For `refund.due`, the reason. For `link.suspended` and `review.created`, JSON of the suspension or the review. */
  readonly detail: string | null
  readonly atMs: number
}

/**
 * `held`: the endpoint is disabled, and the delivery continues when the endpoint is enabled. `failed`: the last attempt of the
 * schedule has failed.
 */
export type DeliveryState = 'waiting' | 'held' | 'delivered' | 'failed'

/** One event to be sent to one endpoint. */
export interface WebhookDelivery {
  readonly id: string
  readonly endpointId: string
  readonly eventId: string
  readonly kind: WebhookKind
  readonly state: DeliveryState
  /** Attempts that have ended since the delivery was created or last replayed. */
  readonly tries: number
  /** When the next attempt is due. Null if there is none. */
  readonly dueAtMs: number | null
  readonly createdAtMs: number
}

/** The result of one attempt. */
export interface WebhookTry {
  readonly atMs: number
  /** Null if there was no response. */
  readonly status: number | null
  readonly latencyMs: number
  /** Why the attempt has failed, as a message for the seller. Null if it has succeeded. */
  readonly error: string | null
  /** The first bytes of the response. */
  readonly response: string
}

/** `webhook-id` of an event. */
export const newEventId = (): string => `msg_${randomUUID().replaceAll('-', '')}`
