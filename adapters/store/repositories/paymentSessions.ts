import type { Payout } from '../../../core/domain/link.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { PurchaseStatus } from '../../../core/domain/purchase.ts'
import {
  type AskedToken,
  SESSION_LIFETIME_MS,
  type Session,
  type SessionMetadata,
  type SessionStatus,
} from '../../../core/domain/session.ts'
import { idempotencyKeyReused, tooManySessions } from '../../../core/ports/refusals.ts'
import { readCursor } from '../../../core/ports/store/purchases.ts'
import {
  type Asked,
  BLOCK_TIME_STEP_MS,
  IDEMPOTENCY_RETENTION_MS,
  type Idempotency,
  type NewSession,
  type SessionFilter,
  type Sessions,
  STRAGGLING_MS,
  UNPAID_COUNTED_MS,
  UNPAID_PER_OPEN,
  UNPAID_RETENTION_MS,
} from '../../../core/ports/store/sessions.ts'
import { cutPage } from '../sql/rows.ts'
import type { SessionTable } from '../sql/schema.ts'
import { noteEvents } from './events.ts'
import {
  type CallsOf,
  free,
  list,
  nothing,
  type Piece,
  part,
  type Reads,
  row,
  type Steps,
  type Tx,
} from './transaction.ts'

const withPurchase = part`SELECT s.*, u.status AS purchase_status
  FROM payment_sessions s LEFT JOIN purchases u ON u.id = s.purchase_id`

const ofKey = (storeId: string, { key }: Idempotency) =>
  part`${withPurchase} WHERE s.store_id = ${storeId} AND s.idempotency_key = ${key}`

/** @throws `IDEMPOTENCY_KEY_REUSED` when another request used the key */
function sameRequest(found: SessionRow | undefined, { key, requestHash }: Idempotency): Session | undefined {
  if (found !== undefined && found.request_hash !== requestHash) throw idempotencyKeyReused(key)
  return found && toSession(found)
}

/** Writes of payment sessions. When a payment changes its session, the ledger of each database writes both in one commit. */
export const paymentSessionWrites = {
  *create(tx: Tx, session: NewSession, maxOpen?: number): Steps<Session> {
    const { storeId, createdAtMs, idempotency } = session
    let hasRoom = true
    if (maxOpen !== undefined) {
      yield* tx.hold(`payment_sessions:${storeId}`)
      const counts = yield* tx.one<{ open: number; unpaid: number }>`SELECT
        (SELECT count(*) FROM payment_sessions WHERE store_id = ${storeId} AND state = 'open'
          AND created_at_ms > ${createdAtMs - SESSION_LIFETIME_MS}) AS open,
        (SELECT count(*) FROM payment_sessions WHERE store_id = ${storeId} AND state IN ('expired', 'canceled')
          AND created_at_ms > ${createdAtMs - UNPAID_COUNTED_MS}) AS unpaid`
      hasRoom = counts!.open < maxOpen && counts!.unpaid < maxOpen * UNPAID_PER_OPEN
    }
    const made = hasRoom
      ? yield* tx.one<SessionTable>`
          INSERT INTO payment_sessions ${row(toSessionRow(session))} ON CONFLICT DO NOTHING RETURNING *`
      : undefined
    if (made !== undefined) return toSession(made)
    const before =
      idempotency === null ? undefined : yield* tx.one<SessionRow>`${ofKey(storeId, idempotency)}`
    if (before === undefined) throw tooManySessions(maxOpen ?? Number.MAX_SAFE_INTEGER)
    return sameRequest(before, idempotency!)!
  },

  *cancel(tx: Tx, id: string, nowMs: number): Steps<void> {
    yield* tx.run`UPDATE payment_sessions SET state = 'canceled', ended_at_ms = ${nowMs}
      WHERE id = ${id} AND state = 'open' AND payment_id IS NULL AND expires_at_ms > ${nowMs}`
  },

  *expire(tx: Tx, nowMs: number, limit: number): Steps<number> {
    yield* tx.run`UPDATE payment_sessions SET idempotency_key = NULL, request_hash = NULL WHERE id IN (
      SELECT id FROM payment_sessions WHERE idempotency_key IS NOT NULL
        AND created_at_ms < ${nowMs - IDEMPOTENCY_RETENTION_MS} ORDER BY created_at_ms LIMIT ${limit} + 0 ${free})`
    const expired = yield* tx.all<{ id: string }>`
      UPDATE payment_sessions SET state = 'expired', ended_at_ms = expires_at_ms WHERE id IN (
        SELECT id FROM payment_sessions WHERE state = 'open' AND expires_at_ms <= ${nowMs} AND payment_id IS NULL
        ORDER BY expires_at_ms LIMIT ${limit} + 0 ${free}) RETURNING id`
    const ids = list(expired.map(({ id }) => id))
    yield* noteEvents(
      tx,
      'payment.expired',
      part`SELECT s.store_id, s.link_id, NULL AS purchase_id, s.id AS session_id, NULL AS detail, s.ended_at_ms AS at_ms
        FROM payment_sessions s WHERE s.id IN ${ids}`,
    )
    return expired.length
  },

  /** Deletes ended sessions, except those for which a payment was claimed. */
  *forget(tx: Tx, endedBeforeMs: number, limit: number): Steps<number> {
    const ended = yield* tx.all<{ id: string }>`SELECT id FROM payment_sessions
      WHERE is_kept = 0 AND state IN ('expired', 'canceled') AND ended_at_ms <= ${endedBeforeMs}
      ORDER BY ended_at_ms LIMIT ${limit} + 0 ${free}`
    const ids = list(ended.map(({ id }) => id))
    const forgotten = yield* tx.run`DELETE FROM payment_sessions
      WHERE id IN ${ids} AND NOT EXISTS (SELECT 1 FROM payments WHERE session_id = payment_sessions.id)`
    yield* tx.run`UPDATE payment_sessions SET is_kept = 1 WHERE id IN ${ids}`
    return forgotten
  },
}

/** Conditions on sessions `s` for a list. An expired session that is not marked yet is stored as open. */
function conditionsOf({ status, nowMs }: SessionFilter): Piece[] {
  if (status === 'open')
    return [part`s.state = 'open' AND (s.expires_at_ms > ${nowMs} OR s.payment_id IS NOT NULL)`]
  if (status === 'expired')
    return [
      part`s.state = 'expired'`,
      part`s.state = 'open' AND s.expires_at_ms <= ${nowMs} AND s.payment_id IS NULL`,
    ]
  return [status === undefined ? part`1 = 1` : part`s.state = ${status}`]
}

/**
 * Payment sessions.
 * @param readsFor creates the reads of one store, which take turns with the reads of other stores
 */
export function createPaymentSessions(
  { paymentSessions }: { readonly paymentSessions: CallsOf<typeof paymentSessionWrites> },
  reads: Reads,
  readsFor: (storeId: string) => Reads,
): Sessions {
  async function find(id: string): Promise<Session | undefined> {
    const found = await reads.one<SessionRow>`${withPurchase} WHERE s.id = ${id}`
    return found && toSession(found)
  }

  return {
    create: paymentSessions.create,
    find,

    async madeBefore(storeId, idempotency) {
      return sameRequest(await reads.one<SessionRow>`${ofKey(storeId, idempotency)}`, idempotency)
    },

    async list(storeId, filter) {
      const { clientReferenceId, cursor, limit } = filter
      const { atMs, id } = cursor === undefined ? { atMs: 0, id: '' } : readCursor(cursor)
      const older = cursor === undefined ? nothing : part`AND (s.created_at_ms, s.id) < (${atMs}, ${id})`
      const referring =
        clientReferenceId === undefined ? nothing : part`AND s.client_reference_id = ${clientReferenceId}`
      const pages = conditionsOf(filter).map(
        (condition) => readsFor(storeId).all<SessionRow>`${withPurchase}
          WHERE s.store_id = ${storeId} AND ${condition} ${referring} ${older}
          ORDER BY s.created_at_ms DESC, s.id DESC LIMIT ${limit + 1} + 0`,
      )
      const newest = (await Promise.all(pages))
        .flat()
        .toSorted((a, b) => b.created_at_ms - a.created_at_ms || (a.id < b.id ? 1 : -1))
      const { shown, nextCursor } = cutPage(newest, limit, (row) => [row.created_at_ms, row.id])
      return { sessions: shown.map(toSession), nextCursor }
    },

    /** Returns each price once, because a store may have created tens of thousands of sessions in this time. */
    async rivals({ id, storeId }, landedAtMs, slackMs) {
      const openAtMs = landedAtMs - slackMs - STRAGGLING_MS
      const rows = await readsFor(storeId).all<SessionRow>`SELECT DISTINCT price, asks FROM payment_sessions
        WHERE store_id = ${storeId} AND id <> ${id} AND state <> 'confirmed'
          AND created_at_ms BETWEEN ${openAtMs - 2 * SESSION_LIFETIME_MS} AND ${landedAtMs + BLOCK_TIME_STEP_MS - 1}
          AND coalesce(ended_at_ms, expires_at_ms) >= ${openAtMs}`
      return rows.map(askedOf)
    },

    async cancel(id, nowMs) {
      await paymentSessions.cancel(id, nowMs)
      return find(id)
    },

    async expire(nowMs, limit) {
      const due = await reads.one`SELECT 1 AS due
        WHERE EXISTS (SELECT 1 FROM payment_sessions WHERE state = 'open' AND expires_at_ms <= ${nowMs} AND payment_id IS NULL)
          OR EXISTS (SELECT 1 FROM payment_sessions
            WHERE idempotency_key IS NOT NULL AND created_at_ms < ${nowMs - IDEMPOTENCY_RETENTION_MS})`
      return due === undefined ? 0 : paymentSessions.expire(nowMs, limit)
    },

    async forget(nowMs, limit) {
      const before = nowMs - UNPAID_RETENTION_MS
      const due = await reads.one`SELECT 1 AS due FROM payment_sessions
        WHERE is_kept = 0 AND state IN ('expired', 'canceled') AND ended_at_ms <= ${before} LIMIT 1`
      return due === undefined ? 0 : paymentSessions.forget(before, limit)
    },
  }
}

/** Columns of a new session. */
const toSessionRow = (session: NewSession) => ({
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
  payout: JSON.stringify(session.payout),
  asks: session.asks && JSON.stringify({ ...session.asks, amountAtomic: `${session.asks.amountAtomic}` }),
  metadata: JSON.stringify(session.metadata),
  idempotency_key: session.idempotency?.key ?? null,
  request_hash: session.idempotency?.requestHash ?? null,
  created_at_ms: session.createdAtMs,
  expires_at_ms: session.expiresAtMs,
  state: 'open',
})

type RequestedRow = Omit<AskedToken, 'amountAtomic'> & { readonly amountAtomic: string }

const toAsked = (row: RequestedRow): AskedToken => ({ ...row, amountAtomic: BigInt(row.amountAtomic) })

/** The price and tokens that the session asks the buyer to pay. */
const askedOf = ({ price, asks }: Pick<SessionTable, 'price' | 'asks'>): Asked => ({
  price,
  asks: asks === null ? null : toAsked(JSON.parse(asks) as RequestedRow),
})

/** A session with the status of its purchase, which another table stores. */
interface SessionRow extends SessionTable {
  readonly purchase_status?: PurchaseStatus | null
}

const toSession = (row: SessionRow): Session => ({
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
  payout: JSON.parse(row.payout) as Payout,
  metadata: JSON.parse(row.metadata) as SessionMetadata,
  createdAtMs: row.created_at_ms,
  expiresAtMs: row.expires_at_ms,
  state: row.state as SessionStatus,
  endedAtMs: row.ended_at_ms,
  paymentRow: row.payment_id,
  failures: row.failures,
  paid:
    row.purchase_id === null
      ? null
      : {
          purchaseId: row.purchase_id,
          txHash: row.tx_hash,
          network: row.network as NetworkId,
          buyerWallet: row.buyer_wallet!,
          status: row.purchase_status!,
        },
})
