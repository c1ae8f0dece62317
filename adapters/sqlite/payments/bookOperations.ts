import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { takenOver } from '../../../core/ports/books.ts'
import { type SessionArgs, sessionMoves } from '../sessions/sessionMoves.ts'
import type { Row } from '../statement.ts'
import { telling } from '../webhooks/telling.ts'
import {
  bodyBytes,
  claimColumns,
  keyBytes,
  purchaseColumns,
  selectPayment,
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
  /** settler, bytes, transaction, sequence; null: forget it */
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
    AND NOT EXISTS (SELECT 1 FROM leases l
      WHERE l.id = p.lease AND l.expires_at_ms > :now AND l.expires_at_ms <= :now + l.ttl_ms)
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
    INSERT INTO attempts (payment_id, settler, bytes, tx, sequence) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (payment_id) DO UPDATE
      SET settler = excluded.settler, bytes = excluded.bytes, tx = excluded.tx, sequence = excluded.sequence`)
  const forgetAttempt = database.prepare('DELETE FROM attempts WHERE payment_id = ?')
  const answer = database.prepare(`
    INSERT INTO answers (payment_id, status, headers, body) VALUES (?, ?, ?, ?)
    ON CONFLICT (payment_id) DO UPDATE SET status = excluded.status, headers = excluded.headers, body = excluded.body`)
  const forgetAnswer = database.prepare('DELETE FROM answers WHERE payment_id = ?')
  const purchase = database.prepare(`
    INSERT INTO purchases (payment_id, ${purchaseColumns.join(', ')}) VALUES (?, ${marks(purchaseColumns)})
    ON CONFLICT (payment_id) DO UPDATE
      SET status = excluded.status, tx_hash = excluded.tx_hash, event = excluded.event`)
  // What has left the chain holds no event there: the transaction may come back with another payment in that place.
  const purchaseStatus = database.prepare(`
    UPDATE purchases SET status = ?1, event = CASE WHEN ?1 = 'reorged' THEN NULL ELSE event END WHERE payment_id = ?2`)
  const book = database.prepare(`
    INSERT INTO ledger (purchase_id, move, entries)
    VALUES (?1, (SELECT coalesce(max(move) + 1, 0) FROM ledger WHERE purchase_id = ?1), ?2)`)
  const hasRefunded = database.prepare(
    'SELECT 1 FROM refunds WHERE payment_id = ? OR (network = ? AND tx_hash = ?)',
  )
  const isRefund = database.prepare('SELECT 1 FROM refunds WHERE network = ? AND tx_hash = ?')
  // The words of the index purchases_transfer, so that it is used.
  const hasPaid = database.prepare(`
    SELECT 1 FROM purchases
    WHERE network = ? AND CASE WHEN network LIKE 'eip155:%' THEN lower(tx_hash) ELSE tx_hash END = ?`)
  const isPayment = database.prepare('SELECT 1 FROM payments WHERE key = ?')
  const refund = database.prepare(
    'INSERT INTO refunds (payment_id, network, tx_hash, refunded_at_ms) VALUES (?, ?, ?, ?)',
  )
  const putOff = database.prepare(`
    UPDATE payments SET due_at_ms = ?, tries = ?, due_reason = coalesce(?, due_reason) WHERE id = ? AND state = ?`)
  const sessions = sessionMoves(database)
  const tell = telling(database)
  const updates: StatementSync[] = []

  const isFree = (row: number, { network, transaction, keys }: NonNullable<ApplyArgs['refund']>) =>
    hasRefunded.get(row, network, transaction) === undefined &&
    hasPaid.get(network, transaction) === undefined &&
    !keys.some((key) => isPayment.get(keyBytes(key)) !== undefined)

  return {
    /** The number of the row when the claim was won, else the row that has it. */
    claim([[hex, ...rest], text]: ClaimArgs): number | Row {
      const key = keyBytes(String(hex))
      const values = [key, ...rest]
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
      if (Number(update.run(...args.values).changes) === 0) return false
      if (args.attempt === null) forgetAttempt.run(row)
      else if (args.attempt !== undefined) attempt.run(row, ...args.attempt)
      if (args.answer === null) forgetAnswer.run(row)
      else if (args.answer !== undefined) {
        const [status, headers, body] = args.answer
        answer.run(row, status!, headers!, bodyBytes(body!))
      }
      if (args.purchase !== undefined) purchase.run(row, ...args.purchase)
      if (args.purchaseStatus !== undefined) purchaseStatus.run(args.purchaseStatus, row)
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
