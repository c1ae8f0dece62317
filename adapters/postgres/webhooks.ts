import { type SqlBool, sql } from 'kysely'
import { tooManyEndpoints } from '../../core/ports/refusals.ts'
import { readCursor } from '../../core/ports/store/purchases.ts'
import { LONGEST_WAIT_MS, type Webhooks } from '../../core/ports/store/webhooks.ts'
import type { Row } from '../sql/row.ts'
import { deliveriesOf, toDelivery, toEndpoint, toEvent, toTaken, toTry } from '../sql/webhookRows.ts'
import type { Database } from './database.ts'
import { holdName, transact } from './transact.ts'

const selectDelivery = sql`
  SELECT d.*, v.id AS event_id, v.kind, v.body FROM webhook_deliveries d JOIN webhook_events v ON v.seq = d.event_seq`

/** Endpoints and the outbox in PostgreSQL. What is more than a statement is in migration 0004. */
export function createWebhooks(database: Database): Webhooks {
  const { query, storeNow } = database
  /** Whose turn was last. */
  let afterStore = ''

  async function find(id: string) {
    const { rows } = await sql<Row>`SELECT * FROM webhook_endpoints WHERE id = ${id}`.execute(query)
    return rows[0] && toEndpoint(rows[0])
  }

  return {
    async create({ id, storeId, url, description, kinds, salt, createdAtMs: at }, most) {
      await transact(database, async (trx) => {
        // Two that come at once would both count one too few.
        await holdName(trx, `endpoints:${storeId}`)
        const { numAffectedRows } = await sql`
          INSERT INTO webhook_endpoints
            (id, store_id, url, description, kinds, salt, listening_since_ms, created_at_ms, updated_at_ms)
          SELECT ${id}, ${storeId}, ${url}, ${description}, ${JSON.stringify(kinds)}, ${salt},
            ${at}::bigint, ${at}::bigint, ${at}::bigint
          WHERE (SELECT count(*) FROM webhook_endpoints WHERE store_id = ${storeId} AND link_id IS NULL) < ${most}::bigint
        `.execute(trx)
        if (numAffectedRows === 0n) throw tooManyEndpoints(most)
      })
    },

    find,

    // From the links that are there: those that a seller makes and deletes all day are not read.
    async ofStore(storeId) {
      const { rows } = await sql<Row>`
        SELECT * FROM webhook_endpoints WHERE store_id = ${storeId} AND link_id IS NULL
        UNION ALL
        SELECT e.* FROM links l JOIN webhook_endpoints e ON e.id = l.id WHERE l.store_id = ${storeId} AND l.is_active = 1
        ORDER BY created_at_ms, id`.execute(query)
      return rows.map(toEndpoint)
    },

    change(id, { url, description, kinds, isEnabled, rotation }, atMs) {
      const set = [sql`updated_at_ms = ${atMs}`]
      if (url !== undefined) set.push(sql`url = ${url}`)
      if (description !== undefined) set.push(sql`description = ${description}`)
      if (kinds !== undefined) set.push(sql`kinds = ${JSON.stringify(kinds)}`)
      if (kinds !== undefined || isEnabled === true) set.push(sql`listening_since_ms = ${atMs}`)
      if (isEnabled === true)
        set.push(sql`disabled_at_ms = NULL, disabled_reason = NULL, failing_since_ms = NULL`)
      if (isEnabled === false)
        set.push(sql`disabled_reason = coalesce(disabled_reason, 'seller'),
          disabled_at_ms = coalesce(disabled_at_ms, ${atMs})`)
      if (rotation !== undefined)
        set.push(
          sql`previous_salt = salt, salt = ${rotation.salt}, previous_until_ms = ${rotation.previousUntilMs}`,
        )
      return transact(database, async (trx) => {
        const { rows } = await sql<Row>`
          UPDATE webhook_endpoints SET ${sql.join(set)} WHERE id = ${id} RETURNING *`.execute(trx)
        if (isEnabled !== undefined) {
          const [from, to] = isEnabled ? ['held', 'waiting'] : ['waiting', 'held']
          await sql`UPDATE webhook_deliveries SET state = ${to} WHERE endpoint_id = ${id} AND state = ${from}`.execute(
            trx,
          )
        }
        return rows[0] && toEndpoint(rows[0])
      })
    },

    async remove(id) {
      const { numAffectedRows } = await sql`
        DELETE FROM webhook_endpoints WHERE id = ${id} AND link_id IS NULL`.execute(query)
      return numAffectedRows === 1n
    },

    async test(id, eventId, atMs) {
      const { numAffectedRows } = await sql`
        INSERT INTO webhook_events (id, kind, store_id, link_id, endpoint_id, at_ms)
          SELECT ${eventId}, 'test', store_id, link_id, id, ${atMs}::bigint
          FROM webhook_endpoints WHERE id = ${id} AND disabled_at_ms IS NULL`.execute(query)
      return numAffectedRows === 1n ? eventId : undefined
    },

    async deliveries(endpointId, { cursor, limit }) {
      const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(readCursor(cursor).id)
      const { rows } = await sql<Row>`
        ${selectDelivery} WHERE d.endpoint_id = ${endpointId} AND d.n < ${Number.isSafeInteger(before) ? before : 0}
        ORDER BY d.n DESC LIMIT ${limit + 1}`.execute(query)
      return deliveriesOf(rows, limit)
    },

    async delivery(id) {
      const found = await sql<Row>`${selectDelivery} WHERE d.id = ${id}`.execute(query)
      const [row] = found.rows
      if (row === undefined) return undefined
      const tries = await sql<Row>`
        SELECT * FROM webhook_tries WHERE delivery = ${row['n']} ORDER BY number`.execute(query)
      return { delivery: toDelivery(row), body: String(row['body']), tries: tries.rows.map(toTry) }
    },

    replay(id, atMs) {
      return transact(database, async (trx) => {
        const isOn = await sql`
          SELECT 1 FROM webhook_endpoints
          WHERE id = (SELECT endpoint_id FROM webhook_deliveries WHERE id = ${id}) AND disabled_at_ms IS NULL
          FOR SHARE`.execute(trx)
        if (isOn.rows.length === 0) return false
        const { numAffectedRows } = await sql`
          UPDATE webhook_deliveries SET state = 'waiting', tries = 0, due_at_ms = ${atMs}, is_due = 1
          WHERE id = ${id}`.execute(trx)
        return numAffectedRows === 1n
      })
    },

    async unspread(limit) {
      const { rows } = await sql<Row>`
        SELECT * FROM webhook_events WHERE body IS NULL ORDER BY seq LIMIT ${limit}`.execute(query)
      return rows.map(toEvent)
    },

    async spread(events, atMs) {
      if (events.length === 0) return
      const [seqs, bodies] = [events.map(({ seq }) => seq), events.map(({ body }) => body)]
      await sql`SELECT spread_webhooks(${seqs}::bigint[], ${bodies}::text[], ${atMs})`.execute(query)
    },

    async take({ limit, nowMs }) {
      const due = await sql`
        SELECT 1 FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 1
        UNION ALL SELECT 1 FROM webhook_deliveries
          WHERE state = 'waiting' AND is_due = 0 AND (due_at_ms <= ${nowMs} OR due_at_ms > ${nowMs + LONGEST_WAIT_MS})
        LIMIT 1`.execute(query)
      if (due.rows.length === 0) return []
      return transact(database, async (trx) => {
        const chosen = await sql<{ taken: number[]; last_store: string }>`
          SELECT * FROM take_webhooks(${limit}, ${nowMs}, ${storeNow()}, ${afterStore})`.execute(trx)
        const { taken, last_store } = chosen.rows[0]!
        const { rows } = await sql<Row>`
          SELECT e.*, v.id AS event_id, v.kind, v.at_ms, v.body, d.id AS delivery, d.taking, d.tries
          FROM unnest(${taken}::bigint[]) WITH ORDINALITY AS t (n, place)
            JOIN webhook_deliveries d ON d.n = t.n JOIN webhook_events v ON v.seq = d.event_seq
            JOIN webhook_endpoints e ON e.id = d.endpoint_id
          ORDER BY t.place`.execute(trx)
        afterStore = last_store
        return rows.map(toTaken)
      })
    },

    async note({ id, taking, try: one, to, dueAtMs = null, disable }) {
      const { rows } = await sql<{ is_noted: SqlBool }>`
        SELECT note_webhook(${id}, ${taking}, ${to}, ${dueAtMs}, ${one === null ? null : JSON.stringify(one)}::jsonb,
          ${disable?.reason ?? null}, ${disable?.ifFailingSinceMs ?? null}) AS is_noted`.execute(query)
      return rows[0]!.is_noted === true
    },

    async forget(beforeMs, limit) {
      const { rows } = await sql<{ count: number }>`
        SELECT forget_webhooks(${beforeMs}, ${limit}) AS count`.execute(query)
      return rows[0]!.count
    },
  }
}
