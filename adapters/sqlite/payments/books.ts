import type { SQLInputValue } from 'node:sqlite'
import { entriesText } from '../../../core/domain/ledger.ts'
import { neverSent, openStates, type PaymentState, requireClaimable } from '../../../core/domain/payment.ts'
import { isTollgateError } from '../../../core/errors/error.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { alreadyBooked, numberTaken } from '../../../core/ports/refusals.ts'
import { type Books, LARGEST_DELAY_MS, type PaymentChange } from '../../../core/ports/store/books.ts'
import { type Packed, packed } from '../../sql/packed.ts'
import {
  canonicalTransaction,
  keyBytes,
  selectPayment,
  toPaymentRecord,
} from '../../sql/sales/paymentRows.ts'
import type { Step } from '../commit/operations.ts'
import type { Database } from '../database.ts'
import { ConstraintError, reading } from '../failure.ts'
import { sessionArgs } from '../sessions/sessionMoves.ts'
import type { Row } from '../statement.ts'
import type { Answers } from './answers.ts'
import { type ApplyArgs, adoptable, numberTakenMessage } from './bookOperations.ts'
import { answerValues, attemptValues, claimValues, purchaseValues, updateKindOf } from './bookRows.ts'

/** Answers that are deleted in one go; one that is larger goes alone. */
const BYTES_FORGOTTEN_AT_ONCE = 4 * 1_048_576
const ROWS_FORGOTTEN_AT_ONCE = 200
/** So many answers that are too young, one after the other, end the search for old ones: rows grow older by their number. */
const YOUNG_IN_A_ROW = 1_000

/** The rows of payments in SQLite. Every condition stands in a statement's WHERE clause; see `bookOperations.ts`. */
export function createBooks(database: Database, answers: Answers, storeClock: Clock): Books {
  const { reader, writer, clock } = database
  const findRow = reader.prepare(`${selectPayment} WHERE p.key = ?`)
  const findState = reader.prepare('SELECT state FROM payments WHERE key = ?')
  // The words of the index payments_open, so that it is used. A due time further ahead is of before the machine's start.
  const [dueByNow, dueSinceBefore] = ['p.due_at_ms <= :now', `p.due_at_ms > :now + ${LARGEST_DELAY_MS}`].map(
    (is) =>
      reader.prepare(`${selectPayment}
      WHERE p.due_at_ms IS NOT NULL AND p.state = :state AND ${is} AND (:network IS NULL OR p.network = :network)
      ORDER BY p.due_at_ms, p.id LIMIT :limit`),
  ) as [ReturnType<typeof reader.prepare>, ReturnType<typeof reader.prepare>]
  // A store at rest is asked this every second, many times over: one short look in the place of two long ones for each state.
  const anyDue = reader.prepare(`SELECT 1 FROM json_each(:states) s WHERE EXISTS (
      SELECT 1 FROM payments p WHERE p.due_at_ms IS NOT NULL AND p.state = s.value AND p.due_at_ms <= :now)
    OR EXISTS (
      SELECT 1 FROM payments p
      WHERE p.due_at_ms IS NOT NULL AND p.state = s.value AND p.due_at_ms > :now + ${LARGEST_DELAY_MS})
    LIMIT 1`)
  const openAttempts = reader.prepare(`
    SELECT s.settler, s.tx, s.sequence, p.error_reason FROM payments p JOIN attempts s ON s.payment_id = p.id
    WHERE p.state <> 'delivered' AND p.state = :state AND s.settler = :settler`)
  const minedAttempts = reader.prepare(`
    SELECT DISTINCT s.settler, s.tx, s.sequence, p.tx_hash FROM payments p JOIN attempts s ON s.payment_id = p.id
    WHERE p.due_at_ms IS NOT NULL AND p.state = :state AND s.settler = :settler`)
  const isParked = 'tries > 0 AND (tries >= :tries OR due_at_ms IS NULL)'
  const countParked = reader.prepare(`SELECT count(*) AS n FROM payments WHERE ${isParked}`)
  const parked = reader.prepare(`${selectPayment} WHERE ${isParked} ORDER BY p.tries DESC, p.id LIMIT :limit`)
  const refundRow = reader.prepare(
    'SELECT network, tx_hash, refunded_at_ms FROM refunds WHERE payment_id = ?',
  )
  const answered = reader.prepare(`
    SELECT p.id, p.state, p.claimed_at_ms, p.updated_at_ms FROM answers a JOIN payments p ON p.id = a.payment_id
    ORDER BY a.payment_id`)
  const answerSizes = reader.prepare(`SELECT payment_id AS id, length(body) AS bytes FROM answers
    WHERE payment_id IN (SELECT value FROM json_each(?)) ORDER BY payment_id`)

  const answeredAfter = reader.prepare(`
    SELECT p.id, p.state, p.claimed_at_ms FROM answers a JOIN payments p ON p.id = a.payment_id
    WHERE a.payment_id > ? ORDER BY a.payment_id LIMIT ?`)

  const signed = reader.prepare(`
    SELECT p.id, p.claimed_at_ms, ${isOver} AS is_over FROM payment_payloads l JOIN payments p ON p.id = l.payment_id
    WHERE l.payment_id > ?2 ORDER BY l.payment_id LIMIT ?3`)

  const dueAt = (delayMs: number | null): number | null =>
    delayMs === null ? null : storeClock.now() + Math.min(delayMs, LARGEST_DELAY_MS)

  /** Ready for the writer's thread. */
  function argsOf(change: PaymentChange): ApplyArgs {
    const { row, purchaseId, to, settled, takenBy, attempt, answer, purchase } = change
    const { entries, refund, noRefund, session, tells } = change
    const isLeaving = !isOpen(to)
    const values: SQLInputValue[] = [to, dueAt(change.dueInMs), clock.now()]
    if (!isLeaving && takenBy !== undefined) values.push(takenBy)
    if (change.errorReason !== undefined) values.push(change.errorReason)
    if (settled !== undefined) {
      const { transaction, event, block, chargedAtomic } = settled
      values.push(transaction, event, block, chargedAtomic.toString())
    }
    values.push(row, purchaseId, ...change.from)
    if (change.lease !== null) values.push(change.lease)
    if (change.errorWas !== undefined) values.push(change.errorWas)
    return {
      ...{ row, update: updateKindOf(change, isLeaving), values },
      ...(attempt !== undefined && { attempt: attempt && attemptValues(attempt) }),
      ...(answer !== undefined && { answer: answer && answerValues(answer) }),
      ...(purchase !== undefined && { purchase: purchaseValues(purchase, settled?.event ?? null) }),
      ...(change.purchaseStatus !== undefined && { purchaseStatus: change.purchaseStatus }),
      ...(entries !== undefined &&
        entries.length > 0 && { entries: [purchaseId, entriesText(entries)] as const }),
      ...(refund !== undefined && {
        refund: {
          network: refund.network,
          transaction: canonicalTransaction(refund.network, refund.transaction),
          keys: refund.paymentKeys,
          atMs: clock.now(),
        },
      }),
      ...(noRefund !== undefined && {
        noRefund: [
          noRefund.network,
          canonicalTransaction(noRefund.network, noRefund.transaction) ?? noRefund.transaction,
        ] as const,
      }),
      ...(session !== undefined && { session: sessionArgs(session, purchase, clock.now()) }),
      ...(tells !== undefined && { tells: tells.flatMap(({ kind, detail = null }) => [kind, detail]) }),
    }
  }

  async function apply(change: PaymentChange): Promise<boolean> {
    try {
      return await writer.write('apply', argsOf(change), change.durability)
    } catch (error) {
      if (!(error instanceof ConstraintError)) throw error
      if (error.message === numberTakenMessage) throw numberTaken({ cause: error })
      if (change.purchase === undefined) throw error
      if (!/UNIQUE constraint failed: (index 'purchases_transfer'|purchases\.id)/.test(error.message))
        throw error
      throw alreadyBooked(change.purchase, { cause: error })
    }
  }

  /**
   * Deletes in pieces: no payment waits for the writer behind all of them.
   * @param which condition for a payment `p` with `beforeMs` in it, judged as the answer is deleted
   * @returns how many
   */
  async function deleteAnswers(rows: readonly number[], which: string, beforeMs: number): Promise<number> {
    if (rows.length === 0) return 0
    const sql = `DELETE FROM answers WHERE payment_id IN (SELECT value FROM json_each(?))
      AND EXISTS (SELECT 1 FROM payments p WHERE p.id = payment_id AND ${which})`
    let deleted = 0
    for (const some of inPieces(reading(() => answerSizes.all(JSON.stringify(rows))))) {
      const parameters = [JSON.stringify(some), beforeMs]
      deleted += (await writer.write('run', { sql, parameters }, 'visible')).changes
    }
    return deleted
  }

  return {
    async claim(request) {
      requireClaimable(request)
      const values = claimValues(request, clock.now())
      const result = await writer.write('claim', [values, request.payload], 'visible')
      return typeof result === 'number'
        ? { won: true, row: result }
        : { won: false, record: toPaymentRecord(result) }
    },

    apply,

    async applyAll(changes) {
      const results = await Promise.allSettled(changes.map(apply))
      return results.map((result) => {
        if (result.status === 'fulfilled') return result.value
        if (isTollgateError(result.reason) && result.reason.code === 'CONFLICT') return result.reason
        throw result.reason
      })
    },

    async find(key) {
      const row = reading(() => findRow.get(keyBytes(key)))
      return row && toPaymentRecord(row)
    },

    async statesOf(keys) {
      const found = reading(() => keys.map((key) => [key, findState.get(keyBytes(key))?.['state']] as const))
      return new Map(
        found.flatMap(([key, state]) => (state === undefined ? [] : [[key, state as PaymentState]])),
      )
    },

    answerOf: (row) => answers.of(row),

    async adopt(lease, states, limit) {
      if (states.length === 0) return 0
      const nowMs = storeClock.now()
      const sql = adoptable(states)
      const isAny = reading(() => reader.prepare(sql).get({ own: lease.id, now: nowMs, limit: 1 }))
      if (isAny === undefined) return 0
      return writer.write('adopt', { lease: lease.id, states, limit, nowMs }, 'visible')
    },

    async due({ states, network = null, limit }) {
      const now = storeClock.now()
      if (reading(() => anyDue.get({ states: JSON.stringify(states), now })) === undefined) return []
      const rows = states.flatMap((state) =>
        [dueSinceBefore, dueByNow].flatMap((due) => reading(() => due.all({ now, state, network, limit }))),
      )
      return rows.sort(byDueTime).slice(0, limit).map(toPaymentRecord)
    },

    async putOff(rows) {
      const values = rows.map(({ row, state, afterMs, tries, reason = null }) => [
        ...[dueAt(afterMs), tries, reason, row, state],
      ])
      if (values.length > 0) await writer.write('putOff', values, 'visible')
    },

    async parked(tries, limit) {
      const total = Number(reading(() => countParked.get({ tries }))!['n'])
      return { total, rows: reading(() => parked.all({ tries, limit })).map(toPaymentRecord) }
    },

    async openAttempts(settler) {
      return (['settling', 'pending', 'reorged'] as const).flatMap((state) =>
        reading(() => openAttempts.all({ state, settler })).map((row) => ({
          settler: String(row['settler']),
          bytes: '',
          transaction: String(row['tx']),
          sequence: row['sequence'] === null ? null : String(row['sequence']),
          ...(state === 'reorged' && { isReorged: true as const }),
          ...(row['error_reason'] === neverSent && { isUnsent: true as const }),
        })),
      )
    },

    async minedAttempts(settler) {
      const rows = (['settled', 'delivered', 'refund_due'] as const).flatMap((state) =>
        reading(() => minedAttempts.all({ state, settler })),
      )
      const own = rows.filter(
        ({ tx, tx_hash: hash }) => hash !== null && packed.hexText(hash as Packed) === tx,
      )
      return [...new Map(own.map((row) => [row['tx'], row])).values()].map((row) => ({
        settler: String(row['settler']),
        bytes: '',
        transaction: String(row['tx']),
        sequence: row['sequence'] === null ? null : String(row['sequence']),
        isMined: true as const,
      }))
    },

    async list({ states, settler, lease, updatedBeforeMs, updatedAfterMs, isNewestFirst, limit }) {
      const where: string[] = [`p.state IN (${states.map(() => '?').join(', ')})`]
      const values: SQLInputValue[] = [...states]
      const and = (condition: string, value: SQLInputValue | undefined) => {
        if (value === undefined) return
        where.push(condition)
        values.push(value)
      }
      // The words of the index payments_open, so that it is used; payments_leased is better where a lease is asked for.
      if (lease === undefined && !states.includes('delivered')) where.push(`p.state <> 'delivered'`)
      and('s.settler = ?', settler)
      and('p.lease = ?', lease)
      and('p.updated_at_ms < ?', updatedBeforeMs)
      and('p.updated_at_ms >= ?', updatedAfterMs)
      const order = isNewestFirst === true ? 'p.id DESC' : 'p.updated_at_ms, p.id'
      const sql = `${selectPayment} WHERE ${where.join(' AND ')} ORDER BY ${order} LIMIT ?`
      return reading(() => reader.prepare(sql).all(...values, limit)).map(toPaymentRecord)
    },

    async refundOf(row) {
      const found = reading(() => refundRow.get(row))
      if (found === undefined) return undefined
      const { network, tx_hash: transaction, refunded_at_ms: refundedAtMs } = found
      return { network, transaction, refundedAtMs } as Awaited<ReturnType<Books['refundOf']>>
    },

    async forgetAnswers(updatedBeforeMs, limit) {
      const old = reading(() => oldAnswers(answered.iterate(), updatedBeforeMs, limit))
      const which = "p.updated_at_ms < ? AND p.state <> 'settling' AND p.state <> 'pending'"
      return deleteAnswers(old, which, updatedBeforeMs)
    },

    async forgetSigned(updatedBeforeMs, afterRow, limit) {
      const rows = reading(() => signed.all(updatedBeforeMs, afterRow, limit))
      const last = rows.findLastIndex((row) => Number(row['claimed_at_ms']) < updatedBeforeMs)
      const old = rows.slice(0, last + 1)
      const over = old.flatMap(({ id, is_over }) => (is_over === 1 ? [Number(id)] : []))
      const from = (table: string, which: string): Step => ({
        sql: `DELETE FROM ${table} WHERE payment_id IN (SELECT value FROM json_each(?2))
          AND EXISTS (SELECT 1 FROM payments p WHERE p.id = payment_id AND ${isOver} AND ${which})`,
        parameters: [updatedBeforeMs, JSON.stringify(over)],
      })
      const steps = [from('payment_payloads', 'true'), from('attempts', `p.network NOT LIKE 'solana:%'`)]
      if (over.length > 0) await writer.write('runAll', steps, 'visible')
      return Number(old.at(-1)?.['id'] ?? 0)
    },

    async forgetDelivered(claimedBeforeMs, afterRow, limit) {
      const isOld = (row: Row) => Number(row['claimed_at_ms']) < claimedBeforeMs
      const page = reading(() => answeredAfter.all(afterRow, limit))
      const looked = page.slice(0, page.findLastIndex(isOld) + 1)
      const delivered = looked.filter((row) => row['state'] === 'delivered' && isOld(row))
      await deleteAnswers(
        delivered.map(({ id }) => Number(id)),
        "p.claimed_at_ms < ? AND p.state = 'delivered'",
        claimedBeforeMs,
      )
      return Number(looked.at(-1)?.['id'] ?? 0)
    },
  }
}

/** Whether what was signed of a payment `p` is needed by nobody any more, see the port. */
const isOver = `(p.updated_at_ms < ?1 AND (p.state = 'rejected'
  OR ((p.state = 'delivered' OR p.state = 'refunded') AND p.due_at_ms IS NULL AND p.tx_hash IS NOT NULL
    AND (p.network NOT LIKE 'solana:%' OR EXISTS (
      SELECT 1 FROM attempts s WHERE s.payment_id = p.id AND s.bytes <> '')))))`

const isOpen = (state: PaymentState): boolean => (openStates as readonly PaymentState[]).includes(state)

const byDueTime = (a: Row, b: Row): number =>
  Number(a['due_at_ms']) - Number(b['due_at_ms']) || Number(a['id']) - Number(b['id'])

/** Of so many bytes, and so many rows, that no payment waits long for the writer behind them. */
function inPieces(answers: readonly Row[]): number[][] {
  const pieces: number[][] = []
  let room = 0
  for (const { id, bytes } of answers) {
    if (room < Number(bytes) || pieces.at(-1)!.length === ROWS_FORGOTTEN_AT_ONCE) {
      pieces.push([])
      room = BYTES_FORGOTTEN_AT_ONCE
    }
    pieces.at(-1)!.push(Number(id))
    room -= Number(bytes)
  }
  return pieces
}

function oldAnswers(rows: Iterable<Row>, updatedBeforeMs: number, limit: number): number[] {
  const old: number[] = []
  let young = 0
  for (const { id, state, claimed_at_ms: claimedAtMs, updated_at_ms: updatedAtMs } of rows) {
    if (old.length === limit || young === YOUNG_IN_A_ROW) break
    young = Number(claimedAtMs) >= updatedBeforeMs ? young + 1 : 0
    if (state === 'settling' || state === 'pending' || Number(updatedAtMs) >= updatedBeforeMs) continue
    old.push(Number(id))
  }
  return old
}
