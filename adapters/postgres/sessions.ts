import type { CompiledQuery } from 'kysely'
import { SESSION_LIFETIME_MS, type Session } from '../../core/domain/session.ts'
import { idempotencyKeyReused, tooManySessions } from '../../core/ports/refusals.ts'
import {
  IDEMPOTENCY_KEPT_MS,
  type Idempotency,
  type Sessions,
  UNPAID_COUNTED_MS,
  UNPAID_KEPT_MS,
  UNPAID_PER_OPEN,
} from '../../core/ports/store/sessions.ts'
import { pageOf, type SessionRow, sessionQueries } from '../sql/sessions/sessionQueries.ts'
import { askedOf, toSession, toSessionRow } from '../sql/sessions/sessionRows.ts'
import { ask } from './ask.ts'
import type { Database } from './database.ts'
import { jsonText } from './jsonText.ts'

const select = `SELECT s.*, u.status AS purchase_status
  FROM payment_sessions s LEFT JOIN purchases u ON u.id = s.purchase_id`
const sql = {
  create: 'SELECT sessions_create($1, $2, $3, $4, $5) AS made',
  find: `${select} WHERE s.id = $1`,
  ofKey: `${select} WHERE s.store_id = $1 AND s.idempotency_key = $2`,
  cancel: `UPDATE payment_sessions SET state = 'canceled', ended_at_ms = $2
    WHERE id = $1 AND state = 'open' AND payment_id IS NULL AND expires_at_ms > $2`,
  expire: 'SELECT sessions_expire($1, $2) AS n',
  forgetKeys: `UPDATE payment_sessions SET idempotency_key = NULL, request_hash = NULL WHERE id IN (
    SELECT id FROM payment_sessions WHERE idempotency_key IS NOT NULL AND created_at_ms < $1
    ORDER BY created_at_ms LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)`,
  forget: 'SELECT sessions_forget($1, $2) AS n',
}

/** Payment sessions in PostgreSQL. What payments do to them is in the functions of the books. */
export function createSessions({ pool, query }: Pick<Database, 'pool' | 'query'>): Sessions {
  async function find(id: string): Promise<Session | undefined> {
    const [row] = await ask(pool, sql.find, [id])
    return row && toOne(row as unknown as SessionRow)
  }

  async function madeBefore(
    storeId: string,
    { key, requestHash }: Idempotency,
  ): Promise<Session | undefined> {
    const [row] = await ask(pool, sql.ofKey, [storeId, key])
    if (row !== undefined && row['request_hash'] !== requestHash) throw idempotencyKeyReused(key)
    return row && toOne(row as unknown as SessionRow)
  }

  const queries = sessionQueries(query)
  const found = ({ sql, parameters }: CompiledQuery) => ask(pool, sql, parameters)

  return {
    async create(session, maxOpen) {
      const { id, storeId, createdAtMs, idempotency } = session
      const most = maxOpen === undefined ? [null, null] : [maxOpen, maxOpen * UNPAID_PER_OPEN]
      const since = [createdAtMs - SESSION_LIFETIME_MS, createdAtMs - UNPAID_COUNTED_MS]
      const values = [jsonText(toSessionRow(session)), most[0], since[0], most[1], since[1]]
      const [said] = await ask(pool, sql.create, values)
      const made =
        said!['made'] === true
          ? await find(id)
          : idempotency === null
            ? undefined
            : await madeBefore(storeId, idempotency)
      if (made === undefined) throw tooManySessions(maxOpen ?? Number.MAX_SAFE_INTEGER)
      return made
    },

    find,

    madeBefore,

    async list(storeId, filter) {
      const arms = queries.arms(storeId, filter).map((arm) => found(arm.compile()))
      const rows = (await Promise.all(arms)).flat() as unknown as SessionRow[]
      const { shown, nextCursor } = pageOf(rows, filter.limit)
      return { sessions: shown.map(toOne), nextCursor }
    },

    async rivals(...asked) {
      const rows = await found(queries.rivals(...asked).compile())
      return rows.map((row) => askedOf(row as unknown as SessionRow))
    },

    async cancel(id, nowMs) {
      await ask(pool, sql.cancel, [id, nowMs])
      return find(id)
    },

    async expire(nowMs, limit) {
      await ask(pool, sql.forgetKeys, [nowMs - IDEMPOTENCY_KEPT_MS, limit])
      const [said] = await ask(pool, sql.expire, [nowMs, limit])
      return Number(said!['n'])
    },

    async forget(nowMs, limit) {
      const [said] = await ask(pool, sql.forget, [nowMs - UNPAID_KEPT_MS, limit])
      return Number(said!['n'])
    },
  }
}

const toOne = (row: SessionRow): Session => toSession(row, () => row.purchase_status)
