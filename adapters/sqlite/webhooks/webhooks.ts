import type { SQLInputValue } from 'node:sqlite'
import type { WebhookEndpoint } from '../../../core/domain/webhook.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { tooManyEndpoints } from '../../../core/ports/refusals.ts'
import { readCursor } from '../../../core/ports/store/purchases.ts'
import { LONGEST_WAIT_MS, type Webhooks } from '../../../core/ports/store/webhooks.ts'
import { deliveriesOf, toDelivery, toEndpoint, toEvent, toTaken, toTry } from '../../sql/webhookRows.ts'
import type { Step } from '../commit/operations.ts'
import type { Database } from '../database.ts'
import { reading } from '../failure.ts'
import type { ReaderThread } from '../reader/readerThread.ts'

const selectDelivery = `
  SELECT d.*, v.id AS event_id, v.kind, v.body FROM webhook_deliveries d JOIN webhook_events v ON v.seq = d.event_seq`

/** Endpoints and the outbox in SQLite. What is more than a statement is in `webhookOperations.ts`. */
export function createWebhooks(
  { reader, writer }: Database,
  thread: ReaderThread,
  storeClock: Clock,
): Webhooks {
  const findRow = reader.prepare('SELECT * FROM webhook_endpoints WHERE id = ?')
  // From the links that are there: those that a seller makes and deletes all day are not read.
  const ofStore = `
    SELECT * FROM webhook_endpoints WHERE store_id = ?1 AND link_id IS NULL
    UNION ALL
    SELECT e.* FROM links l CROSS JOIN webhook_endpoints e ON e.id = l.id WHERE l.store_id = ?1 AND l.is_active = 1
    ORDER BY created_at_ms, id`
  const page = `${selectDelivery} WHERE d.endpoint_id = ? AND d.n < ? ORDER BY d.n DESC LIMIT ?`
  const deliveryRow = reader.prepare(`${selectDelivery} WHERE d.id = ?`)
  const tries = reader.prepare('SELECT * FROM webhook_tries WHERE delivery = ? ORDER BY number')
  const unspread = reader.prepare('SELECT * FROM webhook_events WHERE body IS NULL ORDER BY seq LIMIT ?')
  const isAnyDue = reader.prepare(`
    SELECT 1 WHERE EXISTS (SELECT 1 FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 1)
      OR EXISTS (SELECT 1 FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 0 AND due_at_ms <= ?)
      OR EXISTS (SELECT 1 FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 0 AND due_at_ms > ?)`)
  const isAnyOld = reader.prepare('SELECT 1 FROM webhook_events WHERE at_ms < ? LIMIT 1')

  /** Whose turn was last. */
  let afterStore = ''

  async function find(id: string): Promise<WebhookEndpoint | undefined> {
    const row = reading(() => findRow.get(id))
    return row && toEndpoint(row)
  }

  const step = (sql: string, ...parameters: SQLInputValue[]): Step => ({ sql, parameters })
  const release = (id: string): Step =>
    step(`UPDATE webhook_deliveries SET state = 'waiting' WHERE endpoint_id = ? AND state = 'held'`, id)
  const hold = (id: string): Step =>
    step(`UPDATE webhook_deliveries SET state = 'held' WHERE endpoint_id = ? AND state = 'waiting'`, id)

  return {
    async create({ id, storeId, url, description, kinds, salt, createdAtMs: at }, most) {
      const insert = step(
        `INSERT INTO webhook_endpoints (id, store_id, url, description, kinds, salt, listening_since_ms, created_at_ms,
          updated_at_ms) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?
        WHERE (SELECT count(*) FROM webhook_endpoints WHERE store_id = ? AND link_id IS NULL) < ?`,
        ...[id, storeId, url, description, JSON.stringify(kinds), salt, at, at, at, storeId, most],
      )
      const { changes } = await writer.write('run', insert)
      if (changes === 0) throw tooManyEndpoints(most)
    },

    find,
    async ofStore(storeId) {
      const [rows = []] = await thread.of(storeId).read(step(ofStore, storeId))
      return rows.map(toEndpoint)
    },

    async change(id, { url, description, kinds, isEnabled, rotation }, atMs) {
      const set: string[] = ['updated_at_ms = ?']
      const values: SQLInputValue[] = [atMs]
      const put = (assignment: string, ...given: SQLInputValue[]) => {
        set.push(assignment)
        values.push(...given)
      }
      if (url !== undefined) put('url = ?', url)
      if (description !== undefined) put('description = ?', description)
      if (kinds !== undefined) put('kinds = ?', JSON.stringify(kinds))
      if (kinds !== undefined || isEnabled === true) put('listening_since_ms = ?', atMs)
      if (isEnabled === true) put('disabled_at_ms = NULL, disabled_reason = NULL, failing_since_ms = NULL')
      if (isEnabled === false)
        put(
          `disabled_reason = coalesce(disabled_reason, 'seller'), disabled_at_ms = coalesce(disabled_at_ms, ?)`,
          atMs,
        )
      if (rotation !== undefined)
        put('previous_salt = salt, salt = ?, previous_until_ms = ?', rotation.salt, rotation.previousUntilMs)
      const change = step(
        `UPDATE webhook_endpoints SET ${set.join(', ')} WHERE id = ? RETURNING *`,
        ...values,
        id,
      )
      const after = isEnabled === undefined ? [] : [isEnabled ? release(id) : hold(id)]
      const [changed] = await writer.write('runAll', [change, ...after])
      const row = changed!.rows[0]
      return row && toEndpoint(row)
    },

    async remove(id) {
      const remove = step('DELETE FROM webhook_endpoints WHERE id = ? AND link_id IS NULL', id)
      return (await writer.write('run', remove)).changes > 0
    },

    async test(id, eventId, atMs) {
      const insert = step(
        `INSERT INTO webhook_events (id, kind, store_id, link_id, endpoint_id, at_ms)
          SELECT ?, 'test', store_id, link_id, id, ? FROM webhook_endpoints WHERE id = ? AND disabled_at_ms IS NULL`,
        ...[eventId, atMs, id],
      )
      return (await writer.write('run', insert)).changes > 0 ? eventId : undefined
    },

    async deliveries(endpointId, { cursor, limit }) {
      const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(readCursor(cursor).id)
      const beforeN = Number.isSafeInteger(before) ? before : 0
      const [rows = []] = await thread.of(endpointId).read(step(page, endpointId, beforeN, limit + 1))
      return deliveriesOf(rows, limit)
    },

    async delivery(id) {
      const row = reading(() => deliveryRow.get(id))
      if (row === undefined) return undefined
      const done = reading(() => tries.all(row['n']!)).map(toTry)
      return { delivery: toDelivery(row), body: String(row['body']), tries: done }
    },

    async replay(id, atMs) {
      const again = step(
        `UPDATE webhook_deliveries SET state = 'waiting', tries = 0, due_at_ms = ?, is_due = 1 WHERE id = ? AND EXISTS (
          SELECT 1 FROM webhook_endpoints e WHERE e.id = endpoint_id AND e.disabled_at_ms IS NULL)`,
        ...[atMs, id],
      )
      return (await writer.write('run', again)).changes > 0
    },

    unspread: async (limit) => reading(() => unspread.all(limit)).map(toEvent),

    async spread(events, atMs) {
      if (events.length === 0) return
      const args = { events: events.map(({ seq, body }) => [seq, body] as const), atMs }
      await writer.write('spreadWebhooks', args, 'visible')
    },

    async take({ limit, nowMs }) {
      if (reading(() => isAnyDue.get(nowMs, nowMs + LONGEST_WAIT_MS)) === undefined) return []
      const args = { limit, nowMs, storeNowMs: storeClock.now(), afterStore }
      const taken = await writer.write('takeWebhooks', args, 'visible')
      afterStore = taken.afterStore
      return taken.rows.map(toTaken)
    },

    note: (outcome) => writer.write('noteWebhook', outcome, 'visible'),

    async forget(beforeMs, limit) {
      if (reading(() => isAnyOld.get(beforeMs)) === undefined) return 0
      return writer.write('forgetWebhooks', { beforeMs, limit }, 'visible')
    },
  }
}
