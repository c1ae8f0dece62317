import type { DatabaseSync } from 'node:sqlite'
import type { LinkSuspension } from '../../../core/domain/link.ts'
import { newEventId } from '../../../core/domain/webhook.ts'
import type { Statement } from '../statement.ts'

/** Whether an endpoint `e` of the store hears of the kind. The list of kinds is JSON, and no kind has a quote in it. */
const hears = `e.disabled_at_ms IS NULL AND instr(e.kinds, '"' || :kind || '"') > 0`

/**
 * Writes what the endpoints of a store hear of a payment, in the transaction that the payment changes in. Where nobody
 * listens it is one look into an index.
 */
export function telling(database: DatabaseSync) {
  const listens = database.prepare(`
    SELECT p.store_id, p.link_id FROM payments p WHERE p.id = :row AND EXISTS (
      SELECT 1 FROM webhook_endpoints e WHERE e.store_id = p.store_id AND (e.link_id IS NULL OR e.link_id = p.link_id)
        AND ${hears})`)
  // A sale that left the chain and came back is booked again, and was told.
  const insert = database.prepare(`
    INSERT INTO webhook_events (id, kind, store_id, link_id, purchase_id, detail, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING`)

  return (
    row: number,
    purchaseId: string,
    events: readonly (readonly [kind: string, detail: string | null])[],
    atMs: number,
  ): void => {
    for (const [kind, detail] of events) {
      const found = listens.get({ row, kind })
      if (found === undefined) continue
      insert.run(newEventId(), kind, found['store_id']!, found['link_id']!, purchaseId, detail, atMs)
    }
  }
}

/** The same of a link that is going to be suspended, for where that is one step of several. */
export const tellSuspension = (linkId: string, suspension: LinkSuspension, atMs: number): Statement => ({
  sql: `INSERT INTO webhook_events (id, kind, store_id, link_id, detail, at_ms)
    SELECT ?, 'link.suspended', l.store_id, l.id, ?, ? FROM links l
    WHERE l.id = ? AND l.suspension IS NULL AND EXISTS (
      SELECT 1 FROM webhook_endpoints e WHERE e.store_id = l.store_id AND (e.link_id IS NULL OR e.link_id = l.id)
        AND e.disabled_at_ms IS NULL AND instr(e.kinds, '"link.suspended"') > 0)`,
  parameters: [newEventId(), JSON.stringify(suspension), atMs, linkId],
})
