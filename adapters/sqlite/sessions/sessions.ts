import type { Selectable } from 'kysely'
import type { PurchaseStatus } from '../../../core/domain/purchase.ts'
import { SESSION_LIFETIME_MS, type Session } from '../../../core/domain/session.ts'
import { idempotencyKeyReused, tooManySessions } from '../../../core/ports/refusals.ts'
import {
  IDEMPOTENCY_KEPT_MS,
  type Idempotency,
  type Sessions,
  UNPAID_COUNTED_MS,
  UNPAID_KEPT_MS,
  UNPAID_PER_OPEN,
} from '../../../core/ports/store/sessions.ts'
import type { SessionTable } from '../../sql/schema.ts'
import { pageOf, type SessionRow, sessionQueries } from '../../sql/sessions/sessionQueries.ts'
import { askedOf, toSession, toSessionRow } from '../../sql/sessions/sessionRows.ts'
import { compiled } from '../compiled.ts'
import type { Database } from '../database.ts'
import { reading } from '../failure.ts'
import type { ReaderThread } from '../reader/readerThread.ts'

/** Payment sessions in SQLite. */
export function createSessions({ reader, query, writer }: Database, thread: ReaderThread): Sessions {
  const row = reader.prepare('SELECT * FROM payment_sessions WHERE id = ?')
  const ofKey = reader.prepare('SELECT * FROM payment_sessions WHERE store_id = ? AND idempotency_key = ?')
  const statusOfPurchase = reader.prepare('SELECT status FROM purchases WHERE id = ?')

  const longOver = reader.prepare(`SELECT id FROM payment_sessions
    WHERE is_kept = 0 AND state IN ('expired', 'canceled') AND ended_at_ms <= ? ORDER BY ended_at_ms LIMIT ?`)

  const queries = sessionQueries(query)

  const find = (id: string): Session | undefined => {
    const found = reading(() => row.get(id))
    return found && toOne(found as unknown as SessionTable)
  }

  function madeBefore(storeId: string, { key, requestHash }: Idempotency): Session | undefined {
    const found = reading(() => ofKey.get(storeId, key)) as unknown as SessionTable | undefined
    if (found !== undefined && found.request_hash !== requestHash) throw idempotencyKeyReused(key)
    return found && toOne(found)
  }

  const toOne = (row: Selectable<SessionTable>): Session =>
    toSession(row, (id) => reading(() => statusOfPurchase.get(id))!['status'] as PurchaseStatus)

  return {
    async create(session, maxOpen = Number.MAX_SAFE_INTEGER) {
      const { id, storeId, createdAtMs, idempotency } = session
      const columns = toSessionRow(session)
      const names = Object.keys(columns) as (keyof SessionTable)[]
      const row = query
        .selectNoFrom((e) => names.map((name) => e.val(columns[name]).as(name)))
        .where(
          (e) =>
            e
              .selectFrom('payment_sessions')
              .select((c) => c.fn.countAll<number>().as('count'))
              .where('store_id', '=', storeId)
              .where('state', '=', 'open')
              .where('created_at_ms', '>', createdAtMs - SESSION_LIFETIME_MS),
          '<',
          maxOpen,
        )
        .where(
          (e) =>
            e
              .selectFrom('payment_sessions')
              .select((c) => c.fn.countAll<number>().as('count'))
              .where('store_id', '=', storeId)
              .where('state', 'in', ['expired', 'canceled'])
              .where('created_at_ms', '>', createdAtMs - UNPAID_COUNTED_MS),
          '<',
          maxOpen * UNPAID_PER_OPEN,
        )
      const insert = query
        .insertInto('payment_sessions')
        .columns(names)
        .expression(row)
        .onConflict((c) => c.doNothing())
      const { changes } = await writer.write('run', compiled(insert))
      const made =
        changes > 0 ? find(id) : idempotency === null ? undefined : madeBefore(storeId, idempotency)
      if (made === undefined) throw tooManySessions(maxOpen)
      return made
    },

    find: async (id) => find(id),

    madeBefore: async (storeId, idempotency) => madeBefore(storeId, idempotency),

    async list(storeId, filter) {
      const arms = await thread.of(storeId).read(...queries.arms(storeId, filter).map(compiled))
      const { shown, nextCursor } = pageOf(arms.flat() as unknown as SessionRow[], filter.limit)
      return { sessions: shown.map((row) => toSession(row, () => row.purchase_status)), nextCursor }
    },

    async rivals(session, ...times) {
      const query = compiled(queries.rivals(session, ...times))
      const [rows] = await thread.of(session.storeId).read(query)
      return (rows as unknown as SessionTable[]).map(askedOf)
    },

    async cancel(id, nowMs) {
      const cancel = query
        .updateTable('payment_sessions')
        .set({ state: 'canceled', ended_at_ms: nowMs })
        .where('id', '=', id)
        .where('state', '=', 'open')
        .where('payment_id', 'is', null)
        .where('expires_at_ms', '>', nowMs)
      await writer.write('run', compiled(cancel))
      return find(id)
    },

    async expire(nowMs, limit) {
      const old = reading(() =>
        reader
          .prepare(`SELECT id FROM payment_sessions
            WHERE state = 'open' AND expires_at_ms <= ? AND payment_id IS NULL ORDER BY expires_at_ms LIMIT ?`)
          .all(nowMs, limit),
      ).map((found) => String(found['id']))
      const forgotten = reading(() =>
        reader
          .prepare(
            `SELECT 1 FROM payment_sessions WHERE idempotency_key IS NOT NULL AND created_at_ms < ? LIMIT 1`,
          )
          .get(nowMs - IDEMPOTENCY_KEPT_MS),
      )
      if (forgotten !== undefined) {
        const sql = `UPDATE payment_sessions SET idempotency_key = NULL, request_hash = NULL WHERE id IN (
          SELECT id FROM payment_sessions WHERE idempotency_key IS NOT NULL AND created_at_ms < ? LIMIT ?)`
        await writer.write('run', { sql, parameters: [nowMs - IDEMPOTENCY_KEPT_MS, limit] }, 'visible')
      }
      if (old.length === 0) return 0
      return writer.write('expireSessions', { ids: old, nowMs }, 'visible')
    },

    async forget(nowMs, limit) {
      const ended = reading(() => longOver.all(nowMs - UNPAID_KEPT_MS, limit))
      if (ended.length === 0) return 0
      const ids = ended.map((found) => String(found['id']))
      return writer.write('forgetSessions', ids, 'visible')
    },
  }
}
