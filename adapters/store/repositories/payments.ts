import type { NetworkId } from '../../../core/domain/network.ts'
import { neverSent, type PaymentState } from '../../../core/domain/payment.ts'
import { CLOCK_BEHIND_MS } from '../../../core/ports/store/leases.ts'
import { LARGEST_DELAY_MS, type Ledger, type PutOff, takenOver } from '../../../core/ports/store/ledger.ts'
import { keyBytes, packed, selectPayment, toPaymentRecord } from '../sql/sales/paymentRows.ts'
import type { Packed } from '../sql/schema.ts'
import type { ClockWindow, SharedClock } from './leases.ts'
import {
  type CallsOf,
  list,
  locked,
  nothing,
  numbers,
  part,
  type Reads,
  type Slot,
  type Steps,
  type Tx,
  table,
  words,
} from './transaction.ts'

/** Writes of recovery. During a sale, each database changes the payment by operations of its own, because buyers wait for them. */
export const paymentWrites = {
  *adopt(
    tx: Tx,
    lease: number,
    states: readonly string[],
    limit: number,
    { fromMs, toMs }: ClockWindow,
  ): Steps<number> {
    const nowMs = yield* tx.storeNowMs()
    if (nowMs < fromMs || nowMs > toMs) return 0
    // The statement checks the lease again, because another process may have adopted the payment meanwhile.
    return yield* tx.run`
      WITH abandoned AS MATERIALIZED (
        SELECT p.id, p.lease FROM payments p
        WHERE p.lease IS NOT NULL AND p.lease <> ${lease} AND p.state IN ${list(states)}
          AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.id = p.lease
            AND l.expires_at_ms > ${nowMs} AND l.expires_at_ms - l.ttl_ms <= ${nowMs + CLOCK_BEHIND_MS})
        ORDER BY p.lease, p.id LIMIT ${limit} + 0)
      UPDATE payments AS p SET lease = ${lease}, due_at_ms = ${nowMs}, due_reason = ${takenOver} FROM abandoned a
      WHERE p.id = a.id AND p.lease = a.lease AND p.state IN ${list(states)}`
  },

  *putOff(tx: Tx, rows: readonly PutOff[]): Steps<void> {
    const nowMs = yield* tx.storeNowMs()
    const given = rows.map(({ row, state, afterMs, tries, reason = null }) => ({
      id: row,
      was: state,
      due_at_ms: afterMs === null ? null : nowMs + Math.min(afterMs, LARGEST_DELAY_MS),
      tries,
      reason,
    }))
    const ids = numbers(rows.map(({ row }) => row))
    yield* tx.all`SELECT id FROM payments WHERE id IN ${ids} ORDER BY id ${locked}`
    yield* tx.run`
      UPDATE payments AS p SET due_at_ms = n.due_at_ms, tries = n.tries,
        due_reason = CASE WHEN n.due_at_ms IS NULL AND n.tries = 0 THEN n.reason ELSE coalesce(n.reason, p.due_reason) END
      FROM ${table('n', { id: 'bigint', was: 'text', due_at_ms: 'bigint', tries: 'bigint', reason: 'text' }, given)}
      WHERE p.id = n.id AND p.state = n.was`
  },
}

interface PaymentDeps {
  readonly calls: { readonly payments: CallsOf<typeof paymentWrites> }
  readonly reads: Reads
  /** The time of the shared clock, for a statement. */
  readonly storeNow: () => Slot
  readonly clock: Pick<SharedClock, 'window'>
}

interface AttemptRow {
  readonly settler: string
  readonly tx: string
  readonly sequence: string | null
}

const toOpenAttempt = ({ settler, tx, sequence }: AttemptRow) => ({
  settler,
  bytes: '',
  transaction: tx,
  sequence,
})

/** The reads and writes of payments that recovery, operators and replays use. */
export function createPayments({ calls, reads, storeNow, clock }: PaymentDeps) {
  return {
    async find(key) {
      const found = await reads.one<object>`${record} WHERE p.key = ${keyBytes(key)}`
      return found && toPaymentRecord(found)
    },

    async statesOf(keys) {
      const wanted = keys.map((key) => ({ key }))
      const rows = await reads.all<{ key: Uint8Array; state: PaymentState }>`
        SELECT key, state FROM payments WHERE key IN (SELECT ${keyOf} FROM ${table('k', { key: 'text' }, wanted)})`
      return new Map(rows.map(({ key, state }) => [Buffer.from(key).toString('hex'), state]))
    },

    async adopt({ id }, states, limit) {
      const { window } = clock
      if (window === undefined) return 0
      const abandoned = await reads.one`
        SELECT 1 FROM payments p
        WHERE p.lease IS NOT NULL AND p.lease <> ${id} AND p.state IN ${list(states)}
          AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.id = p.lease AND l.expires_at_ms > (SELECT ${storeNow()})
            AND l.expires_at_ms - l.ttl_ms <= (SELECT ${storeNow()}) + ${CLOCK_BEHIND_MS})
        LIMIT 1`
      return abandoned === undefined ? 0 : calls.payments.adopt(id, states, limit, window)
    },

    async putOff(rows) {
      if (rows.length > 0) await calls.payments.putOff(rows)
    },

    async parked(tries, limit) {
      const count = await reads.one<{ total: number }>`SELECT count(*) AS total FROM payments p
        WHERE p.tries > 0 AND (p.tries >= ${tries} OR p.due_at_ms IS NULL)`
      const rows =
        await reads.all<object>`${record} WHERE p.tries > 0 AND (p.tries >= ${tries} OR p.due_at_ms IS NULL)
        ORDER BY p.tries DESC, p.id LIMIT ${limit} + 0`
      return { total: count!.total, rows: rows.map(toPaymentRecord) }
    },

    async openAttempts(settler) {
      interface Row extends AttemptRow {
        readonly state: string
        readonly error_reason: string | null
      }
      // The statement repeats the conditions of the index payments_open, so that the database uses that index.
      const rows = await reads.all<Row>`
        SELECT s.settler, s.tx, s.sequence, p.state, p.error_reason FROM payments p JOIN attempts s ON s.payment_id = p.id
        WHERE p.state <> 'delivered' AND p.state IN ('settling', 'pending', 'reorged') AND s.settler = ${settler}`
      return rows.map((row) => ({
        ...toOpenAttempt(row),
        ...(row.state === 'reorged' && { isReorged: true as const }),
        ...(row.error_reason === neverSent && { isUnsent: true as const }),
      }))
    },

    async minedAttempts(settler) {
      const rows = await reads.all<AttemptRow & { readonly tx_hash: Packed }>`
        SELECT DISTINCT s.settler, s.tx, s.sequence, p.tx_hash FROM payments p JOIN attempts s ON s.payment_id = p.id
        WHERE p.due_at_ms IS NOT NULL AND p.state IN ('settled', 'delivered', 'refund_due') AND s.settler = ${settler}
          AND p.tx_hash IS NOT NULL`
      const own = rows.filter(({ tx, tx_hash: hash }) => packed.hexText(hash) === tx)
      return own.map((row) => ({ ...toOpenAttempt(row), isMined: true as const }))
    },

    async list({ states, settler, lease, updatedBeforeMs, updatedAfterMs, isNewestFirst, limit }) {
      const rows = await reads.all<object>`${record} WHERE p.state IN ${list(states)}
        ${settler === undefined ? nothing : part`AND s.settler = ${settler}`}
        ${lease === undefined ? nothing : part`AND p.lease = ${lease}`}
        ${lease === undefined && !states.includes('delivered') ? inPaymentsOpen : nothing}
        ${updatedBeforeMs === undefined ? nothing : part`AND p.updated_at_ms < ${updatedBeforeMs}`}
        ${updatedAfterMs === undefined ? nothing : part`AND p.updated_at_ms >= ${updatedAfterMs}`}
        ORDER BY ${isNewestFirst === true ? part`p.id DESC` : part`p.updated_at_ms, p.id`} LIMIT ${limit} + 0`
      return rows.map(toPaymentRecord)
    },

    async refundOf(row) {
      const found = await reads.one<{ network: NetworkId; tx_hash: string; refunded_at_ms: number }>`
        SELECT network, tx_hash, refunded_at_ms FROM refunds WHERE payment_id = ${row}`
      if (found === undefined) return undefined
      const { network, tx_hash: transaction, refunded_at_ms: refundedAtMs } = found
      return { network, transaction, refundedAtMs }
    },
  } satisfies Partial<Ledger>
}

const record = words(selectPayment, selectPayment)
/**
 * Repeats the condition of the index payments_open, so that the database uses that index. With a lease, payments_leased is better.
 */
const inPaymentsOpen = part`AND p.state <> 'delivered'`
const keyOf = words('unhex(k.key)', "decode(k.key, 'hex')")
