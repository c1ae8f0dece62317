import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { takenOver } from '../../../core/ports/books.ts'
import type { Row } from '../statement.ts'
import { claimColumns, entryColumns, purchaseColumns, selectPayment, type Values } from './bookRows.ts'

/** `values` are those of `claimColumns`, in that order; the key is the first. */
export type ClaimArgs = readonly [values: Values, payload: string]

/** What a change does to the row itself; the rest of it goes to tables of its own. */
export interface ApplyArgs {
  readonly row: number
  readonly purchaseId: string
  readonly from: readonly string[]
  readonly lease: number | null
  /** Column, value, column, value. The columns of one kind of change come in the same order each time. */
  readonly set: Values
  /** settler, bytes, transaction, sequence; null: forget it */
  readonly attempt?: Values | null
  /** status, headers, body; null: forget it */
  readonly answer?: Values | null
  /** Values of `purchaseColumns`. */
  readonly purchase?: Values
  readonly purchaseStatus?: string
  /** Values of `entryColumns`, each. */
  readonly entries?: readonly Values[]
  readonly refund?: {
    readonly network: string
    /** In its canonical spelling. */
    readonly transaction: string
    readonly keys: readonly Uint8Array[]
    readonly atMs: number
  }
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
  const purchaseStatus = database.prepare('UPDATE purchases SET status = ? WHERE payment_id = ?')
  const lastLine = database.prepare('SELECT max(line) AS line FROM ledger_entries WHERE purchase_id = ?')
  const hasRefunded = database.prepare(
    'SELECT 1 FROM refunds WHERE payment_id = ? OR (network = ? AND tx_hash = ?)',
  )
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
  const prepared = preparing(database)

  const insertEntries = (count: number) =>
    database.prepare(`INSERT INTO ledger_entries (purchase_id, line, ${entryColumns.join(', ')}) VALUES
      ${Array.from({ length: count }, () => `(?, ?, ${marks(entryColumns)})`).join(', ')}`)
  const oneEntry = insertEntries(1)
  const fourEntries = insertEntries(4)

  function book(purchaseId: string, entries: readonly Values[]): void {
    let line = Number(lastLine.get(purchaseId)?.['line'] ?? -1)
    // A sale's are four: one statement for them is half the work of four.
    if (entries.length === 4) fourEntries.run(...entries.flatMap((values) => [purchaseId, ++line, ...values]))
    else for (const values of entries) oneEntry.run(purchaseId, ++line, ...values)
  }

  function change({ row, purchaseId, from, lease, set }: ApplyArgs): boolean {
    const values: SQLInputValue[] = []
    let columns = ''
    for (let i = 0; i < set.length; i += 2) {
      columns += i === 0 ? `${set[i]} = ?` : `, ${set[i]} = ?`
      values.push(set[i + 1]!)
    }
    values.push(row, purchaseId, ...from)
    if (lease !== null) values.push(lease)
    // Not IN: with more than two values SQLite builds a table for it at each run.
    const states = from.map(() => 'state = ?').join(' OR ') || '0'
    const statement = prepared(
      `UPDATE payments SET ${columns} WHERE id = ? AND purchase_id = ? AND (${states})${lease === null ? '' : ' AND lease = ?'}`,
    )
    return Number(statement.run(...values).changes) > 0
  }

  const isFree = (row: number, { network, transaction, keys }: NonNullable<ApplyArgs['refund']>) =>
    hasRefunded.get(row, network, transaction) === undefined &&
    hasPaid.get(network, transaction) === undefined &&
    !keys.some((key) => isPayment.get(key) !== undefined)

  return {
    /** The number of the row when the claim was won, else the row that has it. */
    claim([values, text]: ClaimArgs): number | Row {
      const { changes, lastInsertRowid } = claimRow.run(...values)
      const key = values[0]!
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
      const { row, purchaseId } = args
      if (args.refund !== undefined && !isFree(row, args.refund)) return false
      if (!change(args)) return false
      if (args.attempt === null) forgetAttempt.run(row)
      else if (args.attempt !== undefined) attempt.run(row, ...args.attempt)
      if (args.answer === null) forgetAnswer.run(row)
      else if (args.answer !== undefined) answer.run(row, ...args.answer)
      if (args.purchase !== undefined) purchase.run(row, ...args.purchase)
      if (args.purchaseStatus !== undefined) purchaseStatus.run(args.purchaseStatus, row)
      if (args.entries !== undefined) book(purchaseId, args.entries)
      if (args.refund !== undefined) {
        const { network, transaction, atMs } = args.refund
        refund.run(row, network, transaction, atMs)
      }
      return true
    },

    /** Values of each row: due_at_ms, tries, reason, row, state */
    putOff(rows: readonly Values[]): void {
      for (const values of rows) putOff.run(...values)
    },

    adopt({ lease, states, limit, nowMs }: AdoptArgs): number {
      const statement = prepared(
        `UPDATE payments SET lease = :own, due_at_ms = :now, due_reason = '${takenOver}' WHERE id IN (${adoptable(states)})`,
      )
      return Number(statement.run({ own: lease, now: nowMs, limit }).changes)
    },
  }
}

/** Kinds of changes are few; each has a statement of its own. */
function preparing(database: DatabaseSync): (sql: string) => StatementSync {
  const cache = new Map<string, StatementSync>()
  return (sql) => {
    let statement = cache.get(sql)
    if (statement === undefined) cache.set(sql, (statement = database.prepare(sql)))
    return statement
  }
}
