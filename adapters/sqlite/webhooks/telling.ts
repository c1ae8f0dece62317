import type { DatabaseSync } from 'node:sqlite'
import { newEventId, type WebhookEvent } from '../../../core/domain/webhook.ts'
import type { Values } from '../payments/bookRows.ts'
import type { Statement } from '../statement.ts'

/** Whether an endpoint `e` hears of the kind. The list of kinds is JSON, and no kind has a quote in it. */
export const hears = (kind: string): string =>
  `e.disabled_at_ms IS NULL AND instr(e.kinds, '"' || ${kind} || '"') > 0`

/** Whether somebody hears of the kind from a link; each half is one look into the index, however many links there are. */
const isHeard = (kind: string, store: string, link: string): string => `(
  EXISTS (SELECT 1 FROM webhook_endpoints e WHERE e.store_id = ${store} AND e.link_id IS NULL AND ${hears(kind)})
  OR EXISTS (SELECT 1 FROM webhook_endpoints e WHERE e.store_id = ${store} AND e.link_id = ${link} AND ${hears(kind)}))`

/**
 * Writes what the endpoints of a store hear of a payment, in the transaction that the payment changes in. Where there is no
 * endpoint at all it is one step of a statement, and where none listens two looks into an index. Positions, not names: binding
 * by name costs as much as the looks.
 */
export function telling(database: DatabaseSync) {
  const isAny = database.prepare('SELECT 1 FROM webhook_endpoints LIMIT 1')
  const listens = database.prepare(`
    SELECT p.store_id, nullif(p.link_id, ''), p.purchase_id, p.session_id, p.updated_at_ms FROM payments p
    WHERE p.id = ?1 AND ${isHeard('?2', 'p.store_id', 'p.link_id')}`)
  // A sale that left the chain and came back is booked again, and was told.
  const insert = database.prepare(`
    INSERT INTO webhook_events (id, kind, detail, store_id, link_id, purchase_id, session_id, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING`)

  /** @param tells kind and detail of each */
  return (row: number, tells: Values): void => {
    if (isAny.get() === undefined) return
    for (let i = 0; i < tells.length; i += 2) {
      const [kind, detail] = [tells[i]!, tells[i + 1]!]
      const found = listens.get(row, kind)
      if (found !== undefined) insert.run(newEventId(), kind, detail, ...(Object.values(found) as Values))
    }
  }
}

/** The same of what happens to a link, for where that is one step of several. `link.suspended` only when it was not before. */
export const tellOfLink = (
  linkId: string,
  event: Pick<WebhookEvent, 'kind' | 'atMs'> & { readonly purchaseId?: string; readonly detail: object },
): Statement => ({
  sql: `INSERT INTO webhook_events (id, kind, store_id, link_id, purchase_id, detail, at_ms)
    SELECT ?1, ?2, l.store_id, l.id, ?3, ?4, ?5 FROM links l
    WHERE l.id = ?6 AND (?2 <> 'link.suspended' OR l.suspension IS NULL) AND ${isHeard('?2', 'l.store_id', 'l.id')}`,
  parameters: [
    newEventId(),
    event.kind,
    event.purchaseId ?? null,
    JSON.stringify(event.detail),
    event.atMs,
    linkId,
  ],
})

/** The same of a session that has expired. */
export function tellingOfExpiry(database: DatabaseSync) {
  const insert = database.prepare(`
    INSERT INTO webhook_events (id, kind, store_id, link_id, session_id, at_ms)
    SELECT ?1, 'payment.expired', s.store_id, s.link_id, s.id, s.ended_at_ms FROM payment_sessions s
    WHERE s.id = ?2 AND ${isHeard("'payment.expired'", 's.store_id', 's.link_id')}
    ON CONFLICT DO NOTHING`)
  return (sessionId: string): void => void insert.run(newEventId(), sessionId)
}
