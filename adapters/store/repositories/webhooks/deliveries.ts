import { randomUUID } from 'node:crypto'
import {
  AT_ONCE_PER_ENDPOINT,
  AT_ONCE_PER_STORE,
  DELIVERY_LEASE_MS,
  LONGEST_HELD_MS,
  LONGEST_WAIT_MS,
  MAX_STORED_TRIES,
  type TryOutcome,
} from '../../../../core/ports/store/webhooks.ts'
import type { Row } from '../../sql/rows.ts'
import { position } from '../events.ts'
import {
  assignments,
  free,
  locked,
  numbers,
  part,
  type Slot,
  type Steps,
  type Tx,
  table,
} from '../transaction.ts'
import { type EndpointRow, moveDeliveries } from './endpoints.ts'

/** Maximum number of deliveries that a call marks as due, latest first. */
const MAX_MARKED = 1_000
/** Maximum number of stores that a call visits, and of endpoints per store. Payments wait for the call in SQLite's writer. */
const MAX_STORES = 100
const MAX_ENDPOINTS = 24
/**
 * A call visits one store per delivery that it may lease, and this many more, because some stores have no delivery that can be sent
 * now.
 */
const SPARE_STORES = 16

export interface Taking {
  readonly limit: number
  readonly nowMs: number
  /** The store that had the last turn. */
  readonly afterStore: string
}

interface Turn {
  readonly place: number
  readonly store_id: string
  /** How many more deliveries the store may have in flight. */
  readonly room: number
}

export const deliveryWrites = {
  *fanOut(tx: Tx, bodies: readonly { seq: number; body: string }[], atMs: number): Steps<void> {
    const given = bodies.map(({ seq, body }) => ({ event: seq, text: body }))
    const fanOut = yield* tx.all<{ seq: number }>`UPDATE webhook_events SET body = g.text
      FROM ${table('g', { event: 'bigint', text: 'text' }, given)} WHERE seq = g.event AND body IS NULL RETURNING seq`
    const seqs = fanOut.map(({ seq }) => seq)
    // Two queries, because each uses its own index, even if a store has ten thousand links.
    const ofStores = yield* listening(tx, seqs, part`e.link_id IS NULL`)
    const ofLinks = yield* listening(tx, seqs, part`e.link_id = v.link_id`)
    const deliveries = [...ofStores, ...ofLinks]
      .toSorted((a, b) => a.event_seq - b.event_seq)
      .map((one) => ({ ...one, id: randomUUID(), at_ms: atMs }))
    const types = {
      id: 'text',
      event_seq: 'bigint',
      endpoint_id: 'text',
      store_id: 'text',
      at_ms: 'bigint',
    } as const
    yield* tx.run`
      INSERT INTO webhook_deliveries (id, event_seq, endpoint_id, store_id, state, due_at_ms, is_due, created_at_ms)
      SELECT g.id, g.event_seq, g.endpoint_id, g.store_id, 'waiting', g.at_ms, 1, g.at_ms
      FROM ${table('g', types, deliveries)}`
  },

  *take(tx: Tx, claim: Taking): Steps<{ readonly found: Row[]; readonly afterStore: string }> {
    // Only one process at a time chooses, so that it counts the deliveries in flight correctly. This lock never waits for a process
    // that writes an outcome.
    yield* tx.hold('webhook_deliveries')
    const storeNowMs = yield* tx.storeNowMs()
    yield* mark(tx, part`due_at_ms <= ${claim.nowMs}`)
    yield* mark(tx, part`due_at_ms > ${claim.nowMs + LONGEST_WAIT_MS}`)
    const turns = yield* nextTurns(tx, claim, storeNowMs)
    const chosen = yield* choose(tx, turns, claim.limit, storeNowMs)
    // If more deliveries are due than the limit allows, the next call starts with the stores after the last chosen one.
    const visited = chosen.length === claim.limit ? chosen : turns
    const last = visited.toSorted((a, b) => a.place - b.place).at(-1)
    const taken = yield* tx.all<{ n: number }>`
      UPDATE webhook_deliveries SET taking = taking + 1, leased_until_ms = ${storeNowMs + DELIVERY_LEASE_MS}
      WHERE n IN (SELECT n FROM webhook_deliveries
        WHERE n IN ${numbers(chosen.map(({ n }) => n))} AND state = 'waiting' ${free}) RETURNING n`
    const found = yield* tx.all<Row>`
      SELECT e.*, v.id AS event_id, v.kind, v.at_ms, v.body, d.id AS delivery, d.taking, d.tries
      FROM webhook_deliveries d JOIN webhook_events v ON v.seq = d.event_seq
        JOIN webhook_endpoints e ON e.id = d.endpoint_id
      WHERE d.n IN ${numbers(taken.map(({ n }) => n))}`
    return { found, afterStore: last?.store_id ?? claim.afterStore }
  },

  *note(tx: Tx, { id, taking: claim, try: one, to, dueAtMs, disable }: TryOutcome): Steps<boolean> {
    const endpoint = yield* endpointOf(tx, id)
    if (endpoint === undefined) return false
    const { disabled_at_ms: disabledAtMs, failing_since_ms: wasFailingMs } = endpoint
    const failingSinceMs =
      one === null ? wasFailingMs : to === 'delivered' ? null : (wasFailingMs ?? one.atMs)
    const { reason, ifFailingSinceMs = Number.MAX_SAFE_INTEGER } = disable ?? {}
    const isDisabled =
      reason !== undefined && disabledAtMs === null && (failingSinceMs ?? Infinity) <= ifFailingSinceMs
    // If the endpoint was disabled meanwhile, the delivery is held back.
    const state = to === 'waiting' && (isDisabled || disabledAtMs !== null) ? 'held' : to
    const columns = {
      state,
      due_at_ms: dueAtMs,
      is_due: Number(dueAtMs === undefined),
      leased_until_ms: null,
    }
    const ended = yield* tx.one<{ n: number }>`
      UPDATE webhook_deliveries SET ${assignments(columns)}, tries = tries + ${Number(one !== null)}
      WHERE id = ${id} AND taking = ${claim} AND (state = 'waiting' OR state = 'held') RETURNING n`
    if (ended === undefined || one === null) return ended !== undefined
    const { atMs, status, latencyMs, error, response } = one
    const number = part`(SELECT coalesce(max(number), 0) + 1 FROM webhook_tries WHERE delivery = ${ended.n})`
    yield* tx.run`INSERT INTO webhook_tries (delivery, number, at_ms, status, latency_ms, error, answer)
      VALUES (${ended.n}, ${number}, ${atMs}, ${status}, ${latencyMs}, ${error}, ${response})`
    yield* tx.run`DELETE FROM webhook_tries WHERE delivery = ${ended.n}
      AND number <= (SELECT max(number) FROM webhook_tries WHERE delivery = ${ended.n}) - ${MAX_STORED_TRIES}`
    if (failingSinceMs === wasFailingMs && !isDisabled) return true
    const off = { disabled_at_ms: atMs, disabled_reason: reason, updated_at_ms: atMs }
    const changed = { failing_since_ms: failingSinceMs, ...(isDisabled && off) }
    yield* tx.run`UPDATE webhook_endpoints SET ${assignments(changed)} WHERE id = ${endpoint.id}`
    if (isDisabled) yield* moveDeliveries(tx, endpoint.id, 'held')
    return true
  },

  *replay(tx: Tx, id: string, atMs: number): Steps<boolean> {
    const endpoint = yield* endpointOf(tx, id)
    if (endpoint === undefined || endpoint.disabled_at_ms !== null) return false
    yield* tx.run`UPDATE webhook_deliveries SET state = 'waiting', tries = 0, due_at_ms = ${atMs}, is_due = 1 WHERE id = ${id}`
    return true
  },

  *forget(tx: Tx, beforeMs: number, limit: number): Steps<number> {
    // Events without deliveries are not deleted, because the clock may have been set ahead.
    const old = yield* tx.all<{ seq: number }>`SELECT seq FROM webhook_events
      WHERE at_ms < ${beforeMs} AND body IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE event_seq = seq AND state = 'waiting')
      ORDER BY at_ms LIMIT ${limit} + 0 ${free}`
    const seqs = numbers(old.map(({ seq }) => seq))
    yield* tx.run`DELETE FROM webhook_tries WHERE delivery IN (SELECT n FROM webhook_deliveries WHERE event_seq IN ${seqs})`
    yield* tx.run`DELETE FROM webhook_deliveries WHERE event_seq IN ${seqs}`
    yield* tx.run`DELETE FROM webhook_events WHERE seq IN ${seqs}`
    return old.length
  },
}

interface Listening {
  readonly event_seq: number
  readonly endpoint_id: string
  readonly store_id: string
}

/**
 * The endpoints that get the events. They are locked first, because every call that changes an endpoint and its deliveries locks
 * the endpoint first.
 */
const listening = (tx: Tx, seqs: readonly number[], which: Slot): Steps<Listening[]> => tx.all<Listening>`
  SELECT v.seq AS event_seq, e.id AS endpoint_id, v.store_id
  FROM webhook_events v JOIN webhook_endpoints e ON e.store_id = v.store_id AND ${which}
  WHERE v.seq IN ${numbers(seqs)} AND e.disabled_at_ms IS NULL
    AND CASE WHEN v.endpoint_id IS NULL THEN ${position}(e.kinds, '"' || v.kind || '"') > 0 ELSE e.id = v.endpoint_id END
  ORDER BY e.id, v.seq ${locked}`

/** Locks the endpoint of a delivery. */
const endpointOf = (tx: Tx, id: string): Steps<EndpointRow | undefined> => tx.one<EndpointRow>`
  SELECT * FROM webhook_endpoints WHERE id = (SELECT endpoint_id FROM webhook_deliveries WHERE id = ${id}) ${locked}`

function* mark(tx: Tx, isDue: Slot): Steps<void> {
  yield* tx.run`UPDATE webhook_deliveries SET is_due = 1 WHERE n IN (
    SELECT n FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 0 AND ${isDue}
    ORDER BY due_at_ms DESC LIMIT ${MAX_MARKED} + 0 ${free})`
}

/** Conditions on deliveries `d` that are in flight by their lease, or can be leased now. The index of due deliveries finds them. */
const inHand = (nowMs: number) =>
  part`(d.leased_until_ms > ${nowMs} AND d.leased_until_ms <= ${nowMs + LONGEST_HELD_MS})`
const takeable = (nowMs: number) =>
  part`d.state = 'waiting' AND d.is_due = 1 AND NOT coalesce(${inHand(nowMs)}, false)`

/**
 * The stores that have a due delivery, in turn, starting after the store that had the last turn. Each store takes one index step.
 */
function nextTurns(tx: Tx, { afterStore, limit }: Taking, nowMs: number): Steps<Turn[]> {
  const next = (store: Slot) =>
    part`(SELECT min(d.store_id) FROM webhook_deliveries d WHERE ${takeable(nowMs)} AND d.store_id > ${store})`
  return tx.all<Turn>`
    WITH RECURSIVE turn (place, store_id, lap) AS (
      SELECT 1, ${next(afterStore)}, 0
      UNION ALL
      SELECT place + 1, ${next(part`coalesce(turn.store_id, '')`)}, CASE WHEN store_id IS NULL THEN 1 ELSE lap END
      FROM turn WHERE place < ${Math.min(MAX_STORES, limit + SPARE_STORES)} AND (lap = 0 OR store_id <= ${afterStore}))
    SELECT place, store_id, ${AT_ONCE_PER_STORE} - (SELECT count(*) FROM webhook_deliveries d
      WHERE d.leased_until_ms IS NOT NULL AND d.store_id = turn.store_id AND ${inHand(nowMs)}) AS room
    FROM turn WHERE store_id IS NOT NULL AND (lap = 0 OR store_id <= ${afterStore})`
}

/**
 * Chooses the deliveries to send. The stores take turns, one delivery at a time, and so do the endpoints of each store. The oldest
 * delivery of each endpoint goes first, because with a backlog no delivery would otherwise reach its last attempt. The first
 * endpoint is arbitrary, so that no endpoint is always the last. The query names a range of endpoints, because PostgreSQL would
 * read all finished deliveries if the order had only the number.
 */
function* choose(
  tx: Tx,
  turns: readonly Turn[],
  limit: number,
  nowMs: number,
): Steps<(Turn & { readonly n: number })[]> {
  const open = turns.filter(({ room }) => room > 0)
  const max = open.length + 2 * limit
  const from = randomUUID()
  const next = (store: Slot, after: Slot) => part`(SELECT min(d.endpoint_id) FROM webhook_deliveries d
    WHERE ${takeable(nowMs)} AND d.store_id = ${store} AND d.endpoint_id > ${after})`
  const found = yield* tx.all<Turn & { readonly n: number }>`
    WITH RECURSIVE seat (place, store_id, room, number, endpoint_id, lap) AS (
      SELECT g.place, g.store_id, g.room, 1, ${next(part`g.store_id`, from)}, 0
      FROM ${table('g', { place: 'bigint', store_id: 'text', room: 'bigint' }, open)}
      UNION ALL
      SELECT place, store_id, room, number + 1, ${next(part`seat.store_id`, part`coalesce(seat.endpoint_id, '')`)},
        CASE WHEN endpoint_id IS NULL THEN 1 ELSE lap END
      FROM seat WHERE number < ${MAX_ENDPOINTS} AND (lap = 0 OR endpoint_id <= ${from})),
    seated AS (
      SELECT * FROM seat WHERE endpoint_id IS NOT NULL AND (lap = 0 OR endpoint_id <= ${from}) LIMIT ${max} + 0),
    pick (place, store_id, room, endpoint_id, free, n) AS (
      SELECT s.place, s.store_id, s.room, s.endpoint_id,
        (SELECT CASE WHEN e.failing_since_ms IS NULL THEN ${AT_ONCE_PER_ENDPOINT} ELSE 1 END
          FROM webhook_endpoints e WHERE e.id = s.endpoint_id)
        - (SELECT count(*) FROM webhook_deliveries d WHERE d.leased_until_ms IS NOT NULL
            AND d.store_id = s.store_id AND d.endpoint_id = s.endpoint_id AND ${inHand(nowMs)}), CAST(0 AS bigint)
      FROM seated s
      UNION ALL
      SELECT place, store_id, room, endpoint_id, free - 1, (SELECT d.n FROM webhook_deliveries d
        WHERE ${takeable(nowMs)} AND d.store_id = pick.store_id
          AND d.endpoint_id BETWEEN pick.endpoint_id AND pick.endpoint_id AND d.n > pick.n
        ORDER BY d.endpoint_id, d.n LIMIT 1)
      FROM pick WHERE free > 0 AND n IS NOT NULL)
    SELECT place, store_id, room, n FROM pick WHERE n > 0 LIMIT ${max} + 0`
  // The query finds a store whose endpoints all come before `from` only after the store's turn.
  const ofStore = new Map<string, number>()
  const inRounds = found.map((turn) => {
    const round = (ofStore.get(turn.store_id) ?? 0) + 1
    ofStore.set(turn.store_id, round)
    return { ...turn, round }
  })
  return inRounds
    .filter(({ round, room }) => round <= room)
    .toSorted((a, b) => a.round - b.round || a.place - b.place)
    .slice(0, limit)
}
