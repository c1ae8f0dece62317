import type { Selectable } from 'kysely'
import type { Payout } from '../../../core/domain/link.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { PurchaseStatus } from '../../../core/domain/purchase.ts'
import {
  type AskedToken,
  SESSION_LIFETIME_MS,
  type Session,
  type SessionMetadata,
  type SessionPayment,
  type SessionStatus,
} from '../../../core/domain/session.ts'
import { cursorAt, readCursor } from '../../../core/ports/purchases.ts'
import { idempotencyKeyReused, tooManySessions } from '../../../core/ports/refusals.ts'
import {
  type Asked,
  IDEMPOTENCY_KEPT_MS,
  type Idempotency,
  type NewSession,
  type SessionFilter,
  type Sessions,
  STRAGGLING_MS,
  UNPAID_COUNTED_MS,
  UNPAID_KEPT_MS,
  UNPAID_PER_OPEN,
} from '../../../core/ports/sessions.ts'
import { compiled } from '../compiled.ts'
import type { Database } from '../database.ts'
import { reading } from '../failure.ts'
import type { ReaderThread } from '../readerThread.ts'
import type { SessionTable } from '../schema.ts'

/** Payment sessions in SQLite. */
export function createSessions({ reader, query, writer }: Database, thread: ReaderThread): Sessions {
  const row = reader.prepare('SELECT * FROM payment_sessions WHERE id = ?')
  const ofKey = reader.prepare('SELECT * FROM payment_sessions WHERE store_id = ? AND idempotency_key = ?')
  const statusOfPurchase = reader.prepare('SELECT status FROM purchases WHERE id = ?')

  const longOver = reader.prepare(`SELECT id FROM payment_sessions
    WHERE is_kept = 0 AND state IN ('expired', 'canceled') AND ended_at_ms <= ? ORDER BY ended_at_ms LIMIT ?`)

  // A store may have made tens of thousands within the time.
  const rivals = `SELECT DISTINCT price, asks FROM payment_sessions
    WHERE store_id = ? AND created_at_ms BETWEEN ? AND ? AND id <> ? AND state <> 'confirmed'
      AND coalesce(ended_at_ms, expires_at_ms) >= ?`

  const find = (id: string): Session | undefined => {
    const found = reading(() => row.get(id))
    return found && toSession(found as unknown as SessionTable)
  }

  function madeBefore(storeId: string, { key, requestHash }: Idempotency): Session | undefined {
    const found = reading(() => ofKey.get(storeId, key)) as unknown as SessionTable | undefined
    if (found !== undefined && found.request_hash !== requestHash) throw idempotencyKeyReused(key)
    return found && toSession(found)
  }

  const toSession = (row: Selectable<SessionTable>): Session => ({ ...sessionOf(row), paid: paidOf(row) })

  function paidOf({ purchase_id: purchaseId, ...row }: Selectable<SessionTable>): SessionPayment | null {
    if (purchaseId === null) return null
    const { tx_hash: txHash, network, buyer_wallet: buyerWallet } = row
    const purchase = reading(() => statusOfPurchase.get(purchaseId))
    return {
      ...{ purchaseId, txHash, network: network as NetworkId, buyerWallet: buyerWallet! },
      status: purchase!['status'] as PurchaseStatus,
    }
  }

  /** Sessions of one state as the store has it, and of either side of their time where that matters. */
  async function arm(
    storeId: string,
    { clientReferenceId, cursor, limit, nowMs }: SessionFilter,
    state?: SessionStatus,
    isOver?: boolean,
  ): Promise<SessionTable[]> {
    let found = query.selectFrom('payment_sessions').selectAll().where('store_id', '=', storeId)
    if (state !== undefined) found = found.where('state', '=', state)
    if (clientReferenceId !== undefined) found = found.where('client_reference_id', '=', clientReferenceId)
    if (isOver === true) found = found.where('expires_at_ms', '<=', nowMs).where('payment_id', 'is', null)
    if (isOver === false)
      found = found.where((e) => e.or([e('expires_at_ms', '>', nowMs), e('payment_id', 'is not', null)]))
    if (cursor !== undefined) {
      const { atMs, id } = readCursor(cursor)
      found = found.where((e) => e(e.refTuple('created_at_ms', 'id'), '<', e.tuple(atMs, id)))
    }
    return found
      .orderBy('created_at_ms', 'desc')
      .orderBy('id', 'desc')
      .limit(limit + 1)
      .execute()
  }

  function arms(storeId: string, filter: SessionFilter): Promise<SessionTable[]>[] {
    const { status } = filter
    if (status === 'open') return [arm(storeId, filter, 'open', false)]
    // Those that nobody has written to have expired yet are among the open ones.
    if (status === 'expired') return [arm(storeId, filter, 'expired'), arm(storeId, filter, 'open', true)]
    return [arm(storeId, filter, status)]
  }

  return {
    async create(session, maxOpen = Number.MAX_SAFE_INTEGER) {
      const { id, storeId, createdAtMs, idempotency } = session
      const columns = toRow(session)
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
      const rows = (await Promise.all(arms(storeId, filter))).flat()
      rows.sort((a, b) => b.created_at_ms - a.created_at_ms || (a.id < b.id ? 1 : -1))
      const shown = rows.slice(0, filter.limit)
      const last = rows.length > filter.limit ? shown.at(-1) : undefined
      return {
        sessions: shown.map(toSession),
        nextCursor: last === undefined ? null : cursorAt(last.created_at_ms, last.id),
      }
    },

    async rivals({ id, storeId }, landedAtMs, slackMs) {
      const openAtMs = landedAtMs - slackMs - STRAGGLING_MS
      const fromMs = openAtMs - 2 * SESSION_LIFETIME_MS
      const parameters = [storeId, fromMs, landedAtMs + slackMs, id, openAtMs]
      const [found] = await thread.of(storeId).read({ sql: rivals, parameters })
      return (found as unknown as Pick<SessionTable, 'price' | 'asks'>[]).map(askedOf)
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

function toRow(session: NewSession): SessionTable {
  return {
    id: session.id,
    store_id: session.storeId,
    link_id: session.linkId,
    secret_hash: session.secretHash,
    price: session.price,
    title: session.title,
    description: session.description,
    success_url: session.successUrl,
    cancel_url: session.cancelUrl,
    allowed_origin: session.allowedOrigin,
    client_reference_id: session.clientReferenceId,
    payout: session.payout && JSON.stringify(session.payout),
    asks: session.asks && JSON.stringify({ ...session.asks, amountAtomic: `${session.asks.amountAtomic}` }),
    metadata: JSON.stringify(session.metadata),
    idempotency_key: session.idempotency?.key ?? null,
    request_hash: session.idempotency?.requestHash ?? null,
    created_at_ms: session.createdAtMs,
    expires_at_ms: session.expiresAtMs,
    state: 'open',
    ended_at_ms: null,
    payment_id: null,
    failures: 0,
    purchase_id: null,
    tx_hash: null,
    network: null,
    buyer_wallet: null,
    is_kept: 0,
  }
}

type AskedRow = Omit<AskedToken, 'amountAtomic'> & { readonly amountAtomic: string }

const toAsked = (row: AskedRow): AskedToken => ({ ...row, amountAtomic: BigInt(row.amountAtomic) })

const askedOf = ({ price, asks }: Pick<SessionTable, 'price' | 'asks'>): Asked => ({
  price,
  asks: asks === null ? null : toAsked(JSON.parse(asks) as AskedRow),
})

const sessionOf = (row: Selectable<SessionTable>): Omit<Session, 'paid'> => ({
  id: row.id,
  storeId: row.store_id,
  linkId: row.link_id,
  secretHash: row.secret_hash,
  ...askedOf(row),
  title: row.title,
  description: row.description,
  successUrl: row.success_url,
  cancelUrl: row.cancel_url,
  allowedOrigin: row.allowed_origin,
  clientReferenceId: row.client_reference_id,
  payout: row.payout === null ? null : (JSON.parse(row.payout) as Payout),
  metadata: JSON.parse(row.metadata) as SessionMetadata,
  createdAtMs: row.created_at_ms,
  expiresAtMs: row.expires_at_ms,
  state: row.state as SessionStatus,
  endedAtMs: row.ended_at_ms,
  paymentRow: row.payment_id,
  failures: row.failures,
})
