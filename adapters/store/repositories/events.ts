import type { WebhookEvent, WebhookKind } from '../../../core/domain/webhook.ts'
import { type Piece, part, type Steps, type Tx, words } from './transaction.ts'

/** Position at which one text begins in another, counted from 1. */
export const position = words('instr', 'strpos')
/** New ids in the form of `newEventId`, one per row. */
const newEventIds = words(
  `'msg_' || lower(hex(randomblob(16)))`,
  `'msg_' || replace(gen_random_uuid()::text, '-', '')`,
)

type LinkEvent = Pick<WebhookEvent, 'kind' | 'atMs'> & {
  readonly purchaseId?: string | null
  readonly detail: object
}

/** Writes an event of a link into the outbox, if an endpoint of its store subscribes to it. */
export const noteLinkEvent = (
  tx: Tx,
  linkId: string,
  { kind, atMs, purchaseId = null, detail }: LinkEvent,
): Steps<void> =>
  noteEvents(
    tx,
    kind,
    part`SELECT store_id, id AS link_id, ${purchaseId} AS purchase_id, NULL AS session_id,
      ${JSON.stringify(detail)} AS detail, CAST(${atMs} AS bigint) AS at_ms FROM links WHERE id = ${linkId}`,
  )

/**
 * Writes events into the outbox in the order of time, if an endpoint of the store subscribes to them. Each half of the condition is
 * one index lookup, regardless of the number of the store's links.
 *
 * @param events a SELECT of the events
 */
export function* noteEvents(tx: Tx, kind: WebhookKind, events: Piece): Steps<void> {
  // The list of kinds is JSON. A kind contains no quote, so the search with quotes finds whole kinds.
  const listening = part`e.disabled_at_ms IS NULL AND ${position}(e.kinds, ${`"${kind}"`}) > 0`
  yield* tx.run`
    INSERT INTO webhook_events (id, kind, store_id, link_id, purchase_id, session_id, detail, at_ms)
    SELECT ${newEventIds}, ${kind}, n.store_id, n.link_id, n.purchase_id, n.session_id, n.detail, n.at_ms FROM (${events}) AS n
    WHERE EXISTS (SELECT 1 FROM webhook_endpoints e WHERE e.store_id = n.store_id AND e.link_id IS NULL AND ${listening})
      OR EXISTS (SELECT 1 FROM webhook_endpoints e WHERE e.store_id = n.store_id AND e.link_id = n.link_id AND ${listening})
    ORDER BY n.at_ms, n.session_id ON CONFLICT DO NOTHING`
}
