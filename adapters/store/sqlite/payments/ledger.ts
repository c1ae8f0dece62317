import type { SQLInputValue } from 'node:sqlite'
import { entriesText } from '../../../../core/domain/ledger.ts'
import { openStates, type PaymentState, requireClaimable } from '../../../../core/domain/payment.ts'
import { isTollgateError } from '../../../../core/errors/error.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import { alreadyBooked, numberTaken } from '../../../../core/ports/refusals.ts'
import { LARGEST_DELAY_MS, type Ledger, type PaymentChange } from '../../../../core/ports/store/ledger.ts'
import { canonicalTransaction, selectPayment, toPaymentRecord } from '../../sql/sales/paymentRows.ts'
import type { Database } from '../connect.ts'
import { ConstraintError, reading } from '../failure.ts'
import type { Row } from '../statement.ts'
import {
  type ApplyArgs,
  attemptValues,
  claimValues,
  numberTakenMessage,
  purchaseValues,
  responseValues,
  updateKindOf,
} from './ledgerOperations.ts'
import type { Responses } from './responses.ts'
import { sessionArgs } from './sessionMoves.ts'

/** The ledger in SQLite. Every condition is in a statement's WHERE clause (see `ledgerOperations.ts`). */
export function createLedger(
  database: Database,
  responses: Responses,
  storeClock: Clock,
): Pick<Ledger, 'claim' | 'apply' | 'applyAll' | 'responseOf' | 'due'> {
  const { reader, writer, clock } = database
  // Repeats the conditions of the index payments_open, so that SQLite uses it. A due time this far in the future was written before
  // the machine rebooted.
  const [dueByNow, dueSinceBefore] = ['p.due_at_ms <= :now', `p.due_at_ms > :now + ${LARGEST_DELAY_MS}`].map(
    (is) =>
      reader.prepare(`${selectPayment}
      WHERE p.due_at_ms IS NOT NULL AND p.state = :state AND ${is} AND (:network IS NULL OR p.network = :network)
      ORDER BY p.due_at_ms, p.id LIMIT :limit + 0`),
  ) as [ReturnType<typeof reader.prepare>, ReturnType<typeof reader.prepare>]
  // An idle process runs this statement many times a second. So this short query comes first, and the two long ones for each state
  // run only if a payment is due.
  const anyDue = reader.prepare(`SELECT 1 FROM json_each(:states) s WHERE EXISTS (
      SELECT 1 FROM payments p WHERE p.due_at_ms IS NOT NULL AND p.state = s.value AND p.due_at_ms <= :now)
    OR EXISTS (
      SELECT 1 FROM payments p
      WHERE p.due_at_ms IS NOT NULL AND p.state = s.value AND p.due_at_ms > :now + ${LARGEST_DELAY_MS})
    LIMIT 1`)
  const dueAt = (delayMs: number | null): number | null =>
    delayMs === null ? null : storeClock.now() + Math.min(delayMs, LARGEST_DELAY_MS)

  /** Converts a change to the arguments for the writer thread. */
  function argsOf(change: PaymentChange): ApplyArgs {
    const { row, purchaseId, to, settled, takenBy, attempt, response, purchase } = change
    const { entries, refund, lostRefund, noRefund, session, events } = change
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
      row,
      update: updateKindOf(change, isLeaving),
      values,
      ...(attempt !== undefined && { attempt: attempt && attemptValues(attempt) }),
      ...(response !== undefined && { response: response && responseValues(response) }),
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
      ...(lostRefund !== undefined && {
        lostRefund: [
          lostRefund.network,
          canonicalTransaction(lostRefund.network, lostRefund.transaction),
          clock.now(),
        ] as const,
      }),
      ...(noRefund !== undefined && {
        noRefund: [
          noRefund.network,
          canonicalTransaction(noRefund.network, noRefund.transaction) ?? noRefund.transaction,
        ] as const,
      }),
      ...(session !== undefined && { session: sessionArgs(session, purchase, clock.now()) }),
      ...(events !== undefined && { events: events.flatMap(({ kind, detail = null }) => [kind, detail]) }),
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

    responseOf: (row) => responses.of(row),

    async due({ states, network = null, limit }) {
      const now = storeClock.now()
      if (reading(() => anyDue.get({ states: JSON.stringify(states), now })) === undefined) return []
      const rows = states.flatMap((state) =>
        [dueSinceBefore, dueByNow].flatMap((due) => reading(() => due.all({ now, state, network, limit }))),
      )
      return rows.sort(byDueTime).slice(0, limit).map(toPaymentRecord)
    },
  }
}

const isOpen = (state: PaymentState): boolean => (openStates as readonly PaymentState[]).includes(state)

const byDueTime = (a: Row, b: Row): number =>
  Number(a['due_at_ms']) - Number(b['due_at_ms']) || Number(a['id']) - Number(b['id'])
