import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { takenOver } from '../../../core/ports/store/books.ts'
import { leaseRuns } from '../../sql/leaseRuns.ts'
import { packed } from '../../sql/packed.ts'
import { keyBytes, selectPayment } from '../../sql/sales/paymentRows.ts'
import { ConstraintError } from '../failure.ts'
import { type SessionArgs, sessionMoves } from '../sessions/sessionMoves.ts'
import type { Row } from '../statement.ts'
import { telling } from '../webhooks/telling.ts'
import {
  bodyBytes,
  claimBytes,
  claimColumns,
  purchaseBytes,
  purchaseColumns,
  updateBytes,
  updateOf,
  type Values,
} from './bookRows.ts'

/** `values` are those of `claimColumns`, in that order; the key is the first, in hex. */
export type ClaimArgs = readonly [values: Values, payload: string]

/** A change of one payment. In few values, and without bytes where they are small: each costs something on its way here. */
export interface ApplyArgs {
  readonly row: number
  /** Kind of the statement that changes the row itself, and only if everything holds that the change is conditional on. */
  readonly update: number
  readonly values: Values
  /** settler, bytes, transaction, sequence, whether other payments have it as well; null: forget it */
  readonly attempt?: Values | null
  /** status, headers, body as `answerValues` writes it; null: forget it */
  readonly answer?: Values | null
  /** Values of `purchaseColumns`. */
  readonly purchase?: Values
  readonly purchaseStatus?: string
  /** As `entriesText` writes them. */
  readonly entries?: readonly [purchaseId: string, text: string]
  readonly refund?: {
    readonly network: string
    /** In its canonical spelling. */
    readonly transaction: string
    /** In hex. */
    readonly keys: readonly string[]
    readonly atMs: number
  }
  readonly session?: SessionArgs
  /** network and transaction, in its canonical spelling, that must have paid nothing back */
  readonly noRefund?: readonly [network: string, transaction: string]
  /** kind and detail of each */
  readonly tells?: Values
}

/** The transaction of a purchase as it is compared, in the words of the index `purchases_transfer`, so that it is used. */
export const transactionOf = `CASE WHEN typeof(tx_hash) = 'blob' OR network NOT LIKE 'eip155:%' THEN tx_hash
      WHEN tx_hash LIKE '0x%' AND length(tx_hash) = 66 THEN coalesce(unhex(substr(tx_hash, 3)), lower(tx_hash))
      ELSE lower(tx_hash) END`

/** What the writer says of an attempt whose account number another transaction has. */
export const numberTakenMessage = 'UNIQUE constraint failed: attempts.settler, attempts.sequence'

export interface AdoptArgs {
  readonly lease: number
  readonly states: readonly string[]
  readonly limit: number
  readonly nowMs: number
}

/** Rows that have a lease which is over, or which nobody knows; `?own` is never among them. */
export const adoptable = (states: readonly string[]): string => `
  SELECT p.id FROM payments p
  WHERE p.lease IS NOT NULL AND p.lease <> :own AND (${states.map((state) => `p.state = '${state}'`).join(' OR ')})
    AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.id = p.lease AND ${leaseRuns(':now')})
  LIMIT :limit`

const marks = (columns: readonly string[]) => columns.map(() => '?').join(', ')

/** The writes of the port Books, each inside the writer's transaction. They know conditions, and no rule. */
export function bookOperations(database: DatabaseSync) {
  const claimRow = database.prepare(`
    INSERT INTO payments (${claimColumns.join(', ')}, state) VALUES (${marks(claimColumns)}, 'claimed')
    ON CONFLICT (key) DO NOTHING`)
  const payload = database.prepare(`
    INSERT INTO payment_payloads (payment_id, payload) VALUES (?, ?)
    ON CONFLICT (payment_id) DO UPDATE SET payload = excluded.payload`)
  const claimAgain = database.prepare(`
    UPDATE payments SET ${claimColumns.map((column) => `${column} = ?`).join(', ')}, state = 'claimed',
      tx_hash = NULL, event = NULL, block = NULL, charged_atomic = NULL, error_reason = NULL, landed_late = 0,
      due_at_ms = NULL, tries = 0, due_reason = NULL
    WHERE key = ? AND state = 'rejected' RETURNING id`)
  const find = database.prepare(`${selectPayment} WHERE p.key = ?`)
  const attempt = database.prepare(`
    INSERT INTO attempts (payment_id, settler, bytes, tx, sequence, is_shared) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (payment_id) DO UPDATE
      SET settler = excluded.settler, bytes = excluded.bytes, tx = excluded.tx, sequence = excluded.sequence,
        is_shared = excluded.is_shared`)
  // The words of the index attempts_number, so that it is used.
  const hasNumber = database.prepare(`
    SELECT 1 FROM attempts s JOIN payments p ON p.id = s.payment_id
    WHERE s.settler LIKE 'evm:%' AND s.sequence IS NOT NULL AND s.settler = ? AND s.sequence = ?
      AND s.tx <> ? AND p.id <> ? AND p.state IN ('settling', 'pending', 'reorged')`)
  const share = database.prepare('INSERT INTO shared_bytes (tx, bytes) VALUES (?, ?) ON CONFLICT DO NOTHING')
  const keepAttempt = (row: number, [settler, bytes, tx, sequence, isShared]: Values): void => {
    if (isShared === 1) share.run(tx!, bytes!)
    attempt.run(row, settler!, isShared === 1 ? '' : bytes!, tx!, sequence!, isShared!)
  }
  const forgetAttempt = database.prepare('DELETE FROM attempts WHERE payment_id = ?')
  const answer = database.prepare(`
    INSERT INTO answers (payment_id, status, headers, body) VALUES (?, ?, ?, ?)
    ON CONFLICT (payment_id) DO UPDATE SET status = excluded.status, headers = excluded.headers, body = excluded.body`)
  const forgetAnswer = database.prepare('DELETE FROM answers WHERE payment_id = ?')
  const purchase = database.prepare(`
    INSERT INTO purchases (payment_id, ${purchaseColumns.join(', ')}) VALUES (?, ${marks(purchaseColumns)})
    ON CONFLICT (payment_id) DO UPDATE
      SET status = excluded.status, tx_hash = excluded.tx_hash, event = excluded.event`)
  // Without the event, which stands in an index: naming it takes its entry out and puts it in again, each a random page.
  const purchaseStatus = database.prepare('UPDATE purchases SET status = ? WHERE payment_id = ?')
  // What has left the chain holds no event there: the transaction may come back with another payment in that place.
  const purchaseReorged = database.prepare(
    `UPDATE purchases SET status = 'reorged', event = NULL WHERE payment_id = ?`,
  )
  const book = database.prepare(`
    INSERT INTO ledger (purchase_id, move, entries)
    VALUES (?1, (SELECT coalesce(max(move) + 1, 0) FROM ledger WHERE purchase_id = ?1), ?2)`)
  const hasRefunded = database.prepare(
    'SELECT 1 FROM refunds WHERE payment_id = ? OR (network = ? AND tx_hash = ?)',
  )
  const isRefund = database.prepare('SELECT 1 FROM refunds WHERE network = ? AND tx_hash = ?')
  const hasPaid = database.prepare(`SELECT 1 FROM purchases WHERE network = ? AND ${transactionOf} = ?`)
  const isPayment = database.prepare('SELECT 1 FROM payments WHERE key = ?')
  const refund = database.prepare(
    'INSERT INTO refunds (payment_id, network, tx_hash, refunded_at_ms) VALUES (?, ?, ?, ?)',
  )
  const putOff = database.prepare(`
    UPDATE payments SET due_at_ms = ?1, tries = ?2,
      due_reason = CASE WHEN ?1 IS NULL AND ?2 = 0 THEN ?3 ELSE coalesce(?3, due_reason) END WHERE id = ?4 AND state = ?5`)
  const sessions = sessionMoves(database)
  const tell = telling(database)
  const updates: StatementSync[] = []

  const isFree = (row: number, { network, transaction, keys }: NonNullable<ApplyArgs['refund']>) =>
    hasRefunded.get(row, network, transaction) === undefined &&
    hasPaid.get(network, packed.hex(transaction)) === undefined &&
    !keys.some((key) => isPayment.get(keyBytes(key)) !== undefined)

  const isNumberTaken = (row: number, [settler, , transaction, sequence]: Values) =>
    sequence !== null &&
    String(settler).startsWith('evm:') &&
    hasNumber.get(settler!, sequence!, transaction!, row) !== undefined

  return {
    /** The number of the row when the claim was won, else the row that has it. */
    claim([request, text]: ClaimArgs): number | Row {
      const values = claimBytes(request)
      const key = values[0]!
      const { changes, lastInsertRowid } = claimRow.run(...values)
      const again = Number(changes) > 0 ? undefined : claimAgain.get(...values, key)
      if (Number(changes) === 0 && again === undefined) return find.get(key)!
      const row = again === undefined ? Number(lastInsertRowid) : Number(again['id'])
      payload.run(row, text)
      if (again !== undefined) {
        forgetAttempt.run(row)
        forgetAnswer.run(row)
      }
      return row
    },

    apply(args: ApplyArgs): boolean {
      const { row } = args
      if (args.refund !== undefined && !isFree(row, args.refund)) return false
      if (args.noRefund !== undefined && isRefund.get(...args.noRefund) !== undefined) return false
      if (args.session !== undefined && !sessions.may(row, args.session)) return false
      const update = (updates[args.update] ??= database.prepare(updateOf(args.update)))
      if (Number(update.run(...updateBytes(args.update, args.values)).changes) === 0) return false
      if (args.attempt === null) forgetAttempt.run(row)
      else if (args.attempt !== undefined) {
        if (isNumberTaken(row, args.attempt)) throw new ConstraintError(numberTakenMessage)
        keepAttempt(row, args.attempt)
      }
      if (args.answer === null) forgetAnswer.run(row)
      else if (args.answer !== undefined) {
        const [status, headers, body] = args.answer
        answer.run(row, status!, headers!, bodyBytes(body!))
      }
      if (args.purchase !== undefined) purchase.run(row, ...purchaseBytes(args.purchase))
      if (args.purchaseStatus === 'reorged') purchaseReorged.run(row)
      else if (args.purchaseStatus !== undefined) purchaseStatus.run(args.purchaseStatus, row)
      if (args.entries !== undefined) book.run(...args.entries)
      if (args.refund !== undefined) {
        const { network, transaction, atMs } = args.refund
        refund.run(row, network, transaction, atMs)
      }
      if (args.session !== undefined) sessions.move(row, args.session)
      if (args.tells !== undefined) tell(row, args.tells)
      return true
    },

    /** Values of each row: due_at_ms, tries, reason, row, state */
    putOff(rows: readonly Values[]): void {
      for (const values of rows) putOff.run(...values)
    },

    adopt({ lease, states, limit, nowMs }: AdoptArgs): number {
      // Rare: a process has died.
      const statement = database.prepare(
        `UPDATE payments SET lease = :own, due_at_ms = :now, due_reason = '${takenOver}' WHERE id IN (${adoptable(states)})`,
      )
      return Number(statement.run({ own: lease, now: nowMs, limit }).changes)
    },
  }
}
