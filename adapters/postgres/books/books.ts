import type pg from 'pg'
import { neverSent, type PaymentState, requireClaimable } from '../../../core/domain/payment.ts'
import { alreadyBooked, numberTaken } from '../../../core/ports/refusals.ts'
import {
  type Books,
  LARGEST_DELAY_MS,
  type PaymentChange,
  takenOver,
} from '../../../core/ports/store/books.ts'
import { leaseRuns } from '../../sql/leaseRuns.ts'
import { keyBytes, selectPayment, toPaymentRecord } from '../../sql/sales/paymentRows.ts'
import { ask } from '../ask.ts'
import type { ConstraintError } from '../failure.ts'
import { jsonText } from '../jsonText.ts'
import type { ServerClock } from '../serverClock.ts'
import { createAnswers } from './answers.ts'
import { changeRow } from './changeRow.ts'
import { claimRow } from './claimRow.ts'
import type { GroupCommit } from './groupCommit.ts'

/** So many answers that are too young, one after the other, end the search for old ones: rows grow older by their number. */
const YOUNG_IN_A_ROW = 1_000

/** The store's time where $1 is the time that stands in for it; in a query of its own, so that it is one moment and an index is used. */
const now = '(SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))'

const isDue = `(p.due_at_ms <= ${now} OR p.due_at_ms > ${now} + ${LARGEST_DELAY_MS})`
const sql = {
  find: `${selectPayment} WHERE p.key = $1`,
  states: `SELECT encode(key, 'hex') AS key, state FROM payments
    WHERE key IN (SELECT decode(wanted, 'hex') FROM unnest($1::text[]) AS wanted)`,
  // For each state the first of its own, from the index payments_open.
  due: `SELECT d.* FROM unnest($2::text[]) AS wanted (state) CROSS JOIN LATERAL (
      ${selectPayment} WHERE p.due_at_ms IS NOT NULL AND p.state = wanted.state AND ${isDue}
        AND ($3::text IS NULL OR p.network = $3)
      ORDER BY p.due_at_ms, p.id LIMIT $4) AS d
    ORDER BY d.due_at_ms, d.id LIMIT $4`,
  // Whoever has waited for a row looks whether it still has the lease that was over: by then somebody else may have adopted it.
  adopt: `WITH abandoned AS MATERIALIZED (
      SELECT p.id, p.lease FROM payments p
      WHERE p.lease IS NOT NULL AND p.lease <> $2 AND p.state = ANY ($3::text[])
        AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.id = p.lease AND ${leaseRuns(now)})
        AND ${now} BETWEEN $6 AND $7
      ORDER BY p.id LIMIT $4)
    UPDATE payments p SET lease = $2, due_at_ms = ${now}, due_reason = $5 FROM abandoned a
    WHERE p.id = a.id AND p.lease = a.lease AND p.state = ANY ($3::text[])
    RETURNING p.id`,
  putOff: `WITH held AS (
      SELECT p.id FROM payments p WHERE p.id IN (SELECT (o ->> 'row')::bigint FROM jsonb_array_elements($2::jsonb) AS o)
      ORDER BY p.id FOR NO KEY UPDATE)
    UPDATE payments p SET due_at_ms = ${now} + o.after_ms, tries = o.tries, 
      due_reason = CASE WHEN o.after_ms IS NULL AND o.tries = 0 THEN o.reason ELSE coalesce(o.reason, p.due_reason) END
    FROM held, jsonb_to_recordset($2::jsonb) AS o ("row" bigint, state text, after_ms bigint, tries bigint, reason text)
    WHERE p.id = held.id AND o."row" = held.id AND p.state = o.state
      AND set_config('synchronous_commit', 'off', true) = 'off'`,
  countParked:
    'SELECT count(*) AS n FROM payments p WHERE p.tries > 0 AND (p.tries >= $1 OR p.due_at_ms IS NULL)',
  parked: `${selectPayment} WHERE p.tries > 0 AND (p.tries >= $1 OR p.due_at_ms IS NULL)
    ORDER BY p.tries DESC, p.id LIMIT $2`,
  // The words of the index payments_open, so that it is used.
  openAttempts: `SELECT s.settler, s.tx, s.sequence, p.state, p.error_reason FROM payments p JOIN attempts s ON s.payment_id = p.id
    WHERE p.state <> 'delivered' AND p.state IN ('settling', 'pending', 'reorged') AND s.settler = $1`,
  minedAttempts: `SELECT DISTINCT s.settler, s.tx, s.sequence FROM payments p JOIN attempts s ON s.payment_id = p.id
    WHERE p.due_at_ms IS NOT NULL AND p.state IN ('settled', 'delivered', 'refund_due') AND s.settler = $1 AND s.tx = p.tx_hash`,
  refund: 'SELECT network, tx_hash, refunded_at_ms FROM refunds WHERE payment_id = $1',
  forgetAnswers: 'SELECT books_forget_answers($1, $2, $3) AS n',
  forgetSigned: 'SELECT books_forget_signed($1, $2, $3) AS n',
  forgetDelivered: 'SELECT books_forget_delivered($1, $2, $3) AS n',
}

/** The rows of payments in PostgreSQL. Every condition is judged by the functions of the schema (claims, bookChanges, bookForget), or in one statement. */
export function createBooks(
  pool: pg.Pool,
  group: Pick<GroupCommit, 'claim' | 'change'>,
  storeNowMs: () => number | null,
  clock: Pick<ServerClock, 'window'>,
): Books {
  const answers = createAnswers(pool)

  const records = async (text: string, values: readonly unknown[]) =>
    (await ask(pool, text, values)).map(toPaymentRecord)

  async function count(text: string, values: readonly unknown[]): Promise<number> {
    const [row] = await ask(pool, text, values)
    return Number(row!['n'])
  }

  return {
    async claim(request) {
      requireClaimable(request)
      const claimed = await group.claim(claimRow(request))
      if (typeof claimed === 'number') return { won: true, row: claimed }
      // JSON has no bytes: `\x` and hex.
      const key = keyBytes(String(claimed['key']).slice(2))
      return { won: false, record: toPaymentRecord({ ...claimed, key }) }
    },

    async apply(change) {
      const [result] = await group.change([changeRow(change)], change.durability)
      if (typeof result === 'boolean') return result
      throw refusalOf(change, result!)
    },

    async applyAll(changes) {
      const isFlushed = changes.some(({ durability }) => durability === 'flushed')
      const results = await group.change(changes.map(changeRow), isFlushed ? 'flushed' : 'visible')
      return results.map((result, i) =>
        typeof result === 'boolean' ? result : refusalOf(changes[i]!, result),
      )
    },

    find: async (key) => (await records(sql.find, [keyBytes(key)]))[0],

    async statesOf(keys) {
      const rows = await ask(pool, sql.states, [keys])
      return new Map(rows.map(({ key, state }) => [String(key), state as PaymentState]))
    },

    answerOf: answers,

    async adopt(lease, states, limit) {
      const { window } = clock
      if (window === undefined) return 0
      const times = [window.fromMs, window.toMs]
      const rows = await ask(pool, sql.adopt, [storeNowMs(), lease.id, states, limit, takenOver, ...times])
      return rows.length
    },

    due: ({ states, network = null, limit }) => records(sql.due, [storeNowMs(), states, network, limit]),

    async putOff(rows) {
      const given = rows.map(({ row, state, afterMs, tries, reason = null }) => ({
        ...{ row, state, tries, reason },
        after_ms: afterMs === null ? null : Math.min(afterMs, LARGEST_DELAY_MS),
      }))
      if (given.length > 0) await ask(pool, sql.putOff, [storeNowMs(), jsonText(given)])
    },

    async parked(tries, limit) {
      const total = await count(sql.countParked, [tries])
      return { total, rows: await records(sql.parked, [tries, limit]) }
    },

    async openAttempts(settler) {
      const rows = await ask(pool, sql.openAttempts, [settler])
      return rows.map((row) => ({
        settler: String(row['settler']),
        bytes: '',
        transaction: String(row['tx']),
        sequence: row['sequence'] as string | null,
        ...(row['state'] === 'reorged' && { isReorged: true as const }),
        ...(row['error_reason'] === neverSent && { isUnsent: true as const }),
      }))
    },

    async minedAttempts(settler) {
      const rows = await ask(pool, sql.minedAttempts, [settler])
      return rows.map((row) => ({
        settler: String(row['settler']),
        bytes: '',
        transaction: String(row['tx']),
        sequence: row['sequence'] as string | null,
        isMined: true as const,
      }))
    },

    list({ states, settler, lease, updatedBeforeMs, updatedAfterMs, isNewestFirst, limit }) {
      const values: unknown[] = [states]
      const where = ['p.state = ANY ($1::text[])']
      const and = (condition: string, value: unknown) => {
        if (value !== undefined) where.push(`${condition} $${values.push(value)}`)
      }
      // The words of the index payments_open, so that it is used; payments_leased is better where a lease is asked for.
      if (lease === undefined && !states.includes('delivered')) where.push(`p.state <> 'delivered'`)
      and('s.settler =', settler)
      and('p.lease =', lease)
      and('p.updated_at_ms <', updatedBeforeMs)
      and('p.updated_at_ms >=', updatedAfterMs)
      const order = isNewestFirst === true ? 'p.id DESC' : 'p.updated_at_ms, p.id'
      const text = `${selectPayment} WHERE ${where.join(' AND ')} ORDER BY ${order} LIMIT $${values.push(limit)}`
      return records(text, values)
    },

    async refundOf(row) {
      const [found] = await ask(pool, sql.refund, [row])
      if (found === undefined) return undefined
      const { network, tx_hash: transaction, refunded_at_ms: refundedAtMs } = found
      return { network, transaction, refundedAtMs } as Awaited<ReturnType<Books['refundOf']>>
    },

    forgetAnswers: (updatedBeforeMs, limit) =>
      count(sql.forgetAnswers, [updatedBeforeMs, limit, YOUNG_IN_A_ROW]),

    forgetSigned: (updatedBeforeMs, afterRow, limit) =>
      count(sql.forgetSigned, [updatedBeforeMs, afterRow, limit]),

    forgetDelivered: (claimedBeforeMs, afterRow, limit) =>
      count(sql.forgetDelivered, [claimedBeforeMs, afterRow, limit]),
  }
}

/** What the caller is told of a change that broke a rule of the tables. */
function refusalOf({ purchase }: PaymentChange, error: ConstraintError): Error {
  if (error.constraint === 'attempts_number') return numberTaken({ cause: error })
  const isBooked = error.constraint === 'purchases_transfer' || error.constraint === 'purchases_id_key'
  return purchase !== undefined && isBooked ? alreadyBooked(purchase, { cause: error }) : error
}
