import type {
  DeliveryState,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookEvent,
  WebhookKind,
  WebhookTry,
} from '../../core/domain/webhook.ts'
import type { DeliveryPage, TakenDelivery } from '../../core/ports/store/webhooks.ts'
import { cutPage } from './cutPage.ts'
import type { Row } from './row.ts'

/** The columns of an endpoint, whatever stands beside them in the row. */
export const toEndpoint = (row: Row): WebhookEndpoint => ({
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

export const toEvent = (row: Row): WebhookEvent => ({
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

export const toTaken = (row: Row): TakenDelivery => ({
  id: String(row['delivery']),
  taking: Number(row['taking']),
  tries: Number(row['tries']),
  event: { id: String(row['event_id']), kind: row['kind'] as WebhookKind, atMs: Number(row['at_ms']) },
  body: String(row['body']),
  endpoint: toEndpoint(row),
})

/** @param rows at most one more than `limit` */
export function deliveriesOf(rows: readonly Row[], limit: number): DeliveryPage {
  const { shown, nextCursor } = cutPage(rows, limit, (row) => [
    Number(row['created_at_ms']),
    String(row['n']),
  ])
  return { deliveries: shown.map(toDelivery), nextCursor }
}

export const toDelivery = (row: Row): WebhookDelivery => ({
  id: String(row['id']),
  endpointId: String(row['endpoint_id']),
  eventId: String(row['event_id']),
  kind: row['kind'] as WebhookKind,
  state: row['state'] as DeliveryState,
  tries: Number(row['tries']),
  dueAtMs: row['state'] === 'waiting' ? Number(row['due_at_ms']) : null,
  createdAtMs: Number(row['created_at_ms']),
})

export const toTry = (row: Row): WebhookTry => ({
  atMs: Number(row['at_ms']),
  status: row['status'] as number | null,
  latencyMs: Number(row['latency_ms']),
  error: row['error'] as string | null,
  answer: String(row['answer']),
})
