import { tooManyEndpoints } from '../../../../core/ports/refusals.ts'
import type { EndpointPatch, NewEndpoint } from '../../../../core/ports/store/webhooks.ts'
import type { Row } from '../../sql/rows.ts'
import { assignments, locked, row, type Steps, type Tx } from '../transaction.ts'

/** Webhook endpoints. A call that changes an endpoint and its deliveries locks the endpoint first. */
export const endpointWrites = {
  *create(tx: Tx, endpoint: NewEndpoint, max: number): Steps<void> {
    const { id, storeId, url, description, kinds, salt, createdAtMs } = endpoint
    yield* tx.hold(`webhook_endpoints:${storeId}`)
    const present = yield* tx.one<{ count: number }>`
      SELECT count(*) AS count FROM webhook_endpoints WHERE store_id = ${storeId} AND link_id IS NULL`
    if (present!.count >= max) throw tooManyEndpoints(max)
    const columns = {
      id,
      store_id: storeId,
      url,
      description,
      kinds: JSON.stringify(kinds),
      salt,
      listening_since_ms: createdAtMs,
      created_at_ms: createdAtMs,
      updated_at_ms: createdAtMs,
    }
    yield* tx.run`INSERT INTO webhook_endpoints ${row(columns)}`
  },

  *change(tx: Tx, id: string, patch: EndpointPatch, atMs: number): Steps<Row | undefined> {
    const found = yield* tx.one<EndpointRow>`SELECT * FROM webhook_endpoints WHERE id = ${id} ${locked}`
    if (found === undefined) return undefined
    const { url, description, kinds, isEnabled, rotation } = patch
    const columns = {
      url,
      description,
      kinds: kinds && JSON.stringify(kinds),
      listening_since_ms: kinds !== undefined || isEnabled === true ? atMs : undefined,
      ...(isEnabled === true && { disabled_at_ms: null, disabled_reason: null, failing_since_ms: null }),
      ...(isEnabled === false && {
        disabled_at_ms: found.disabled_at_ms ?? atMs,
        disabled_reason: found.disabled_reason ?? 'seller',
      }),
      ...(rotation !== undefined && {
        previous_salt: found.salt,
        salt: rotation.salt,
        previous_until_ms: rotation.previousUntilMs,
      }),
      updated_at_ms: atMs,
    }
    if (isEnabled !== undefined) yield* moveDeliveries(tx, id, isEnabled ? 'waiting' : 'held')
    return yield* tx.one<Row>`UPDATE webhook_endpoints SET ${assignments(columns)} WHERE id = ${id} RETURNING *`
  },

  *remove(tx: Tx, id: string): Steps<boolean> {
    const removed = yield* tx.run`DELETE FROM webhook_endpoints WHERE id = ${id} AND link_id IS NULL`
    if (removed > 0) yield* failDeliveries(tx, id)
    return removed > 0
  },

  *test(tx: Tx, id: string, eventId: string, atMs: number): Steps<boolean> {
    const written = yield* tx.run`
      INSERT INTO webhook_events (id, kind, store_id, link_id, endpoint_id, at_ms)
      SELECT ${eventId}, 'test', store_id, link_id, id, CAST(${atMs} AS bigint)
      FROM webhook_endpoints WHERE id = ${id} AND disabled_at_ms IS NULL`
    return written > 0
  },
}

/** The columns that decide how an endpoint changes. */
export interface EndpointRow {
  readonly id: string
  readonly salt: string
  readonly disabled_at_ms: number | null
  readonly disabled_reason: string | null
  readonly failing_since_ms: number | null
}

/** Fails the waiting deliveries of a removed endpoint. */
export function* failDeliveries(tx: Tx, endpointId: string): Steps<void> {
  yield* tx.run`UPDATE webhook_deliveries SET state = 'failed'
    WHERE endpoint_id = ${endpointId} AND (state = 'waiting' OR state = 'held')`
}

/** Changes the state of an endpoint's deliveries. The caller has locked the endpoint. */
export function* moveDeliveries(tx: Tx, endpointId: string, to: 'waiting' | 'held'): Steps<void> {
  const from = to === 'held' ? 'waiting' : 'held'
  yield* tx.run`UPDATE webhook_deliveries SET state = ${to} WHERE endpoint_id = ${endpointId} AND state = ${from}`
}
