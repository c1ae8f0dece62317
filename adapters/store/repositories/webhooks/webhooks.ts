import type {
  DeliveryState,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookEvent,
  WebhookKind,
  WebhookTry,
} from '../../../../core/domain/webhook.ts'
import { readCursor } from '../../../../core/ports/store/purchases.ts'
import {
  type DeliveryPage,
  LONGEST_WAIT_MS,
  type TakenDelivery,
  type Webhooks,
} from '../../../../core/ports/store/webhooks.ts'
import { cutPage, type Row } from '../../sql/rows.ts'
import { type CallsOf, part, type Reads, words } from '../transaction.ts'
import { deliveryWrites } from './deliveries.ts'
import { endpointWrites } from './endpoints.ts'

export const webhookWrites = { ...endpointWrites, ...deliveryWrites }

const withEvent = part`SELECT d.*, v.id AS event_id, v.kind, v.body
  FROM webhook_deliveries d JOIN webhook_events v ON v.seq = d.event_seq`
/** Makes SQLite read the links first. */
const then = words('CROSS JOIN', 'JOIN')

/**
 * Endpoints and the outbox.
 * @param readsFor creates the reads of one store or endpoint, which take turns with the reads of others
 */
export function createWebhooks(
  { webhooks }: { readonly webhooks: CallsOf<typeof webhookWrites> },
  reads: Reads,
  readsFor: (requester: string) => Reads,
): Webhooks {
  /** The store that had the last turn. */
  let afterStore = ''

  return {
    ...webhooks,

    async find(id) {
      const found = await reads.one<Row>`SELECT * FROM webhook_endpoints WHERE id = ${id}`
      return found && toEndpoint(found)
    },

    // The query starts from the active links, so that it does not read links that a seller creates and deletes all day.
    async ofStore(storeId) {
      const found = await readsFor(storeId).all<Row>`
        SELECT * FROM webhook_endpoints WHERE store_id = ${storeId} AND link_id IS NULL
        UNION ALL
        SELECT e.* FROM links l ${then} webhook_endpoints e ON e.id = l.id WHERE l.store_id = ${storeId} AND l.is_active = 1
        ORDER BY created_at_ms, id`
      return found.map(toEndpoint)
    },

    async change(...asked) {
      const changed = await webhooks.change(...asked)
      return changed && toEndpoint(changed)
    },

    test: async (id, eventId, atMs) => ((await webhooks.test(id, eventId, atMs)) ? eventId : undefined),

    async deliveries(endpointId, { cursor, limit }) {
      const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(readCursor(cursor).id)
      const found = await readsFor(endpointId).all<Row>`${withEvent}
        WHERE d.endpoint_id = ${endpointId} AND d.n < ${Number.isSafeInteger(before) ? before : 0}
        ORDER BY d.n DESC LIMIT ${limit + 1} + 0`
      return deliveriesOf(found, limit)
    },

    async delivery(id) {
      const found = await reads.one<Row & { n: number }>`${withEvent} WHERE d.id = ${id}`
      if (found === undefined) return undefined
      const tries = await reads.all<Row>`
        SELECT * FROM webhook_tries WHERE delivery = ${found.n} ORDER BY number`
      return { delivery: toDelivery(found), body: String(found['body']), tries: tries.map(toTry) }
    },

    async awaitingFanOut(limit) {
      const found = await reads.all<Row>`
        SELECT * FROM webhook_events WHERE body IS NULL ORDER BY seq LIMIT ${limit} + 0`
      return found.map(toEvent)
    },

    async fanOut(events, atMs) {
      if (events.length > 0) await webhooks.fanOut(events, atMs)
    },

    async take({ limit, nowMs }) {
      const due = await reads.one`SELECT 1 AS due
        WHERE EXISTS (SELECT 1 FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 1)
          OR EXISTS (SELECT 1 FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 0 AND due_at_ms <= ${nowMs})
          OR EXISTS (SELECT 1 FROM webhook_deliveries
            WHERE state = 'waiting' AND is_due = 0 AND due_at_ms > ${nowMs + LONGEST_WAIT_MS})`
      if (due === undefined) return []
      const taken = await webhooks.take({ limit, nowMs, afterStore })
      afterStore = taken.afterStore
      return taken.found.map(toTaken)
    },

    async forget(beforeMs, limit) {
      const old = await reads.one`SELECT 1 AS old FROM webhook_events WHERE at_ms < ${beforeMs} LIMIT 1`
      return old === undefined ? 0 : webhooks.forget(beforeMs, limit)
    },
  }
}

/** Reads the columns of an endpoint. The row may have other columns. */
const toEndpoint = (row: Row): WebhookEndpoint => ({
  id: String(row['id']),
  storeId: String(row['store_id']),
  linkId: row['link_id'] as string | null,
  url: String(row['url']),
  description: String(row['description']),
  kinds: JSON.parse(String(row['kinds'])) as WebhookKind[],
  salt: String(row['salt']),
  previousSalt: row['previous_salt'] as string | null,
  previousUntilMs: row['previous_until_ms'] as number | null,
  disabledAtMs: row['disabled_at_ms'] as number | null,
  disabledReason: row['disabled_reason'] as WebhookEndpoint['disabledReason'],
  failingSinceMs: row['failing_since_ms'] as number | null,
  listeningSinceMs: Number(row['listening_since_ms']),
  createdAtMs: Number(row['created_at_ms']),
  updatedAtMs: Number(row['updated_at_ms']),
})

const toEvent = (row: Row): WebhookEvent => ({
  seq: Number(row['seq']),
  id: String(row['id']),
  kind: row['kind'] as WebhookKind,
  storeId: String(row['store_id']),
  linkId: row['link_id'] as string | null,
  purchaseId: row['purchase_id'] as string | null,
  sessionId: row['session_id'] as string | null,
  endpointId: row['endpoint_id'] as string | null,
  detail: row['detail'] as string | null,
  atMs: Number(row['at_ms']),
})

const toTaken = (row: Row): TakenDelivery => ({
  id: String(row['delivery']),
  taking: Number(row['taking']),
  tries: Number(row['tries']),
  event: { id: String(row['event_id']), kind: row['kind'] as WebhookKind, atMs: Number(row['at_ms']) },
  body: String(row['body']),
  endpoint: toEndpoint(row),
})

/** @param rows at most one more than `limit` */
function deliveriesOf(rows: readonly Row[], limit: number): DeliveryPage {
  const { shown, nextCursor } = cutPage(rows, limit, (row) => [
    Number(row['created_at_ms']),
    String(row['n']),
  ])
  return { deliveries: shown.map(toDelivery), nextCursor }
}

const toDelivery = (row: Row): WebhookDelivery => ({
  id: String(row['id']),
  endpointId: String(row['endpoint_id']),
  eventId: String(row['event_id']),
  kind: row['kind'] as WebhookKind,
  state: row['state'] as DeliveryState,
  tries: Number(row['tries']),
  dueAtMs: row['state'] === 'waiting' ? Number(row['due_at_ms']) : null,
  createdAtMs: Number(row['created_at_ms']),
})

const toTry = (row: Row): WebhookTry => ({
  atMs: Number(row['at_ms']),
  status: row['status'] as number | null,
  latencyMs: Number(row['latency_ms']),
  error: row['error'] as string | null,
  response: String(row['answer']),
})
