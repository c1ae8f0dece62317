import { randomUUID } from 'node:crypto'
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import {
  AT_ONCE_PER_ENDPOINT,
  AT_ONCE_PER_STORE,
  DELIVERY_LEASE_MS,
  LONGEST_HELD_MS,
  LONGEST_WAIT_MS,
  TRIES_KEPT,
  type TryOutcome,
} from '../../../core/ports/store/webhooks.ts'
import type { Row } from '../statement.ts'
import { hears } from './telling.ts'

export interface TakeArgs {
  readonly limit: number
  readonly nowMs: number
  /** By the store's clock. */
  readonly storeNowMs: number
  /** Whose turn was last. */
  readonly afterStore: string
}

/** Deliveries whose time has come that are marked so in one go, the latest first. */
const MARKED_AT_ONCE = 1_000
/** Stores, and endpoints of a store, that are looked at in one go: payments wait for this thread. */
const STORES_VISITED = 100
const ENDPOINTS_VISITED = 50

const isHeld = `(leased_until_ms > :storeNow AND leased_until_ms <= :storeNow + ${LONGEST_HELD_MS})`

/** The writes of the port Webhooks that are more than a statement, inside the writer's transaction. */
export function webhookOperations(database: DatabaseSync) {
  const event = database.prepare('SELECT * FROM webhook_events WHERE seq = ? AND body IS NULL')
  const setBody = database.prepare('UPDATE webhook_events SET body = ? WHERE seq = ?')
  const listeners = database.prepare(`
    SELECT e.id FROM webhook_endpoints e WHERE e.store_id = ?1 AND e.link_id IS NULL AND ?4 IS NULL AND ${hears('?3')}
    UNION ALL
    SELECT e.id FROM webhook_endpoints e WHERE e.store_id = ?1 AND e.link_id = ?2 AND ?4 IS NULL AND ${hears('?3')}
    UNION ALL
    SELECT e.id FROM webhook_endpoints e WHERE e.id = ?4 AND e.disabled_at_ms IS NULL`)
  const deliver = database.prepare(`
    INSERT INTO webhook_deliveries (id, event_seq, endpoint_id, store_id, state, due_at_ms, is_due, created_at_ms)
    VALUES (?, ?, ?, ?, 'waiting', ?, 1, ?)`)

  const [markByNow, markAhead] = ['due_at_ms <= ?', `due_at_ms > ? + ${LONGEST_WAIT_MS}`].map((is) =>
    database.prepare(`
      UPDATE webhook_deliveries SET is_due = 1 WHERE n IN (
        SELECT n FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 0 AND ${is}
        ORDER BY due_at_ms DESC LIMIT ${MARKED_AT_ONCE})`),
  ) as [ReturnType<typeof database.prepare>, ReturnType<typeof database.prepare>]
  const nextStore = database.prepare(`
    SELECT min(store_id) AS id FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 1 AND store_id > ?`)
  const nextEndpoint = database.prepare(`
    SELECT min(endpoint_id) AS id FROM webhook_deliveries
    WHERE state = 'waiting' AND is_due = 1 AND store_id = ? AND endpoint_id > ?`)
  const heldOfStore = database.prepare(`
    SELECT count(*) AS n FROM webhook_deliveries WHERE leased_until_ms IS NOT NULL AND store_id = :store AND ${isHeld}`)
  const heldOfEndpoint = database.prepare(`
    SELECT count(*) AS n FROM webhook_deliveries
    WHERE leased_until_ms IS NOT NULL AND store_id = :store AND endpoint_id = :endpoint AND ${isHeld}`)
  const endpointRow = database.prepare('SELECT * FROM webhook_endpoints WHERE id = ?')
  // The oldest first: behind a backlog nothing would ever come to its last try, and nobody hear that a receiver is gone.
  const due = database.prepare(`
    SELECT n FROM webhook_deliveries
    WHERE state = 'waiting' AND is_due = 1 AND store_id = :store AND endpoint_id = :endpoint
      AND NOT coalesce(${isHeld}, 0)
    ORDER BY n LIMIT :limit`)
  const lease = database.prepare(`
    UPDATE webhook_deliveries SET taking = taking + 1, leased_until_ms = ? WHERE n = ?
    RETURNING id, taking, tries, event_seq`)
  const eventOf = database.prepare('SELECT id, kind, at_ms, body FROM webhook_events WHERE seq = ?')

  const end = database.prepare(`
    UPDATE webhook_deliveries SET state = ?1, due_at_ms = coalesce(?2, due_at_ms), is_due = ?2 IS NULL, tries = tries + ?3,
      leased_until_ms = NULL
    WHERE id = ?4 AND taking = ?5 AND (state = 'waiting' OR state = 'held') RETURNING n, endpoint_id`)
  const logTry = database.prepare(`
    INSERT INTO webhook_tries (delivery, number, at_ms, status, latency_ms, error, answer)
    SELECT :n, coalesce(max(number), 0) + 1, :at, :status, :latency, :error, :answer
    FROM webhook_tries WHERE delivery = :n`)
  const forgetTries = database.prepare(`
    DELETE FROM webhook_tries WHERE delivery = :n
      AND number <= (SELECT max(number) FROM webhook_tries WHERE delivery = :n) - ${TRIES_KEPT}`)
  const gotThrough = database.prepare(
    'UPDATE webhook_endpoints SET failing_since_ms = NULL WHERE id = ? AND failing_since_ms IS NOT NULL',
  )
  const isFailing = database.prepare(
    'UPDATE webhook_endpoints SET failing_since_ms = ? WHERE id = ? AND failing_since_ms IS NULL',
  )
  const disable = database.prepare(`
    UPDATE webhook_endpoints SET disabled_at_ms = :at, disabled_reason = :reason, updated_at_ms = :at
    WHERE id = :id AND disabled_at_ms IS NULL AND (:since IS NULL OR failing_since_ms <= :since)`)
  const hold = database.prepare(
    `UPDATE webhook_deliveries SET state = 'held' WHERE endpoint_id = ? AND state = 'waiting'`,
  )

  // None that is still to be told: the clock may have been put ahead.
  const old = database.prepare(`
    SELECT seq FROM webhook_events WHERE at_ms < ? AND body IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE event_seq = seq AND state = 'waiting')
    ORDER BY at_ms LIMIT ?`)
  const forgetting = [
    `DELETE FROM webhook_tries WHERE delivery IN (SELECT n FROM webhook_deliveries WHERE event_seq = ?)`,
    'DELETE FROM webhook_deliveries WHERE event_seq = ?',
    'DELETE FROM webhook_events WHERE seq = ?',
  ].map((sql) => database.prepare(sql))

  /** Takes what an endpoint may have of the room that its store has. */
  function takeOf(store: string, endpoint: string, room: number, storeNowMs: number): Row[] {
    const row = endpointRow.get(endpoint)
    if (row === undefined) return []
    const most = row['failing_since_ms'] === null ? AT_ONCE_PER_ENDPOINT : 1
    const held = Number(heldOfEndpoint.get({ store, endpoint, storeNow: storeNowMs })!['n'])
    const limit = Math.min(room, most - held)
    if (limit <= 0) return []
    return due.all({ storeNow: storeNowMs, store, endpoint, limit }).map(({ n }) => {
      const taken = lease.get(storeNowMs + DELIVERY_LEASE_MS, n!)!
      const { id, ...event } = eventOf.get(taken['event_seq']!)!
      return {
        ...row,
        ...event,
        event_id: id!,
        delivery: taken['id']!,
        taking: taken['taking']!,
        tries: taken['tries']!,
      }
    })
  }

  function takeOfStore(store: string, most: number, storeNowMs: number): Row[] {
    const held = Number(heldOfStore.get({ store, storeNow: storeNowMs })!['n'])
    const room = Math.min(most, AT_ONCE_PER_STORE - held)
    const taken: Row[] = []
    // From anywhere among them, so that no endpoint of a store is always the last.
    const from: string = randomUUID()
    let isAround = false
    let visits = 0
    for (let endpoint = from; taken.length < room && visits < ENDPOINTS_VISITED; visits++) {
      const next = nextEndpoint.get(store, endpoint)!['id'] as string | null
      if (isAround && (next === null || next > from)) break
      if (next === null) {
        isAround = true
        endpoint = ''
        continue
      }
      taken.push(...takeOf(store, next, room - taken.length, storeNowMs))
      endpoint = next
    }
    return taken
  }

  return {
    /** Each: seq, body. */
    spreadWebhooks({ events, atMs }: { events: readonly (readonly [number, string])[]; atMs: number }): void {
      for (const [seq, body] of events) {
        const found = event.get(seq)
        if (found === undefined) continue
        setBody.run(body, seq)
        const {
          store_id: store,
          link_id: link,
          kind,
          endpoint_id: only,
        } = found as Record<string, SQLInputValue>
        for (const { id } of listeners.all(store!, link!, kind!, only!))
          deliver.run(randomUUID(), seq, id!, store!, atMs, atMs)
      }
    },

    takeWebhooks(args: TakeArgs): { readonly rows: Row[]; readonly afterStore: string } {
      const { limit, nowMs, storeNowMs, afterStore } = args
      markByNow.run(nowMs)
      markAhead.run(nowMs)
      const rows: Row[] = []
      let store = afterStore
      let isAround = false
      for (let visits = 0; rows.length < limit && visits < STORES_VISITED; visits++) {
        const next = nextStore.get(store)!['id'] as string | null
        if (isAround && (next === null || next > afterStore)) break
        if (next === null) {
          isAround = true
          store = ''
          continue
        }
        rows.push(...takeOfStore(next, limit - rows.length, storeNowMs))
        store = next
      }
      return { rows, afterStore: store }
    },

    noteWebhook({ id, taking, try: one, to, dueAtMs, disable: off }: TryOutcome): boolean {
      const ended = end.get(to, dueAtMs ?? null, one === null ? 0 : 1, id, taking)
      if (ended === undefined) return false
      const [n, endpoint] = [ended['n']!, ended['endpoint_id']!]
      // Whoever was disabled while this was on its way holds it, too.
      const isOff = () => endpointRow.get(endpoint)?.['disabled_at_ms'] != null
      if (one === null) {
        if (isOff()) hold.run(endpoint)
        return true
      }
      const { atMs, status, latencyMs, error, answer } = one
      logTry.run({ n, at: atMs, status, latency: latencyMs, error, answer })
      forgetTries.run({ n })
      if (to === 'delivered') gotThrough.run(endpoint)
      else isFailing.run(atMs, endpoint)
      const since = off?.ifFailingSinceMs ?? null
      if (off !== undefined) disable.run({ at: atMs, reason: off.reason, id: endpoint, since })
      if (isOff()) hold.run(endpoint)
      return true
    },

    forgetWebhooks({ beforeMs, limit }: { beforeMs: number; limit: number }): number {
      const events = old.all(beforeMs, limit)
      for (const { seq } of events) for (const statement of forgetting) statement.run(seq!)
      return events.length
    },
  }
}
