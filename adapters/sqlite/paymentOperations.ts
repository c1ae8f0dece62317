import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { chargedStates, landedLate as lateReason, type PaymentState } from '../../core/domain/payment.ts'
import { ConstraintError } from './failure.ts'
import { selectPayment } from './paymentRows.ts'
import { refundOperation } from './refundOperation.ts'
import type { Row } from './statement.ts'

type Values = readonly SQLInputValue[]

/** `values` are those of {@link claimColumns}, in that order. */
export type ClaimArgs = readonly [key: string, values: Values, payload: string]

export interface BeginSettlementArgs {
  readonly key: string
  readonly owner: string
  readonly atMs: number
  /** settler, bytes, transaction, sequence */
  readonly attempt: Values
  /** status, headers, body */
  readonly answer: Values | null
}

export interface SettleArgs {
  readonly key: string
  readonly owner: string
  readonly atMs: number
  readonly transaction: string
  readonly purchaseId: string
  /** Values of {@link purchaseColumns}, in that order. */
  readonly purchase: Values
  /** Values of {@link entryColumns} per entry. */
  readonly entries: readonly Values[]
}

export interface MoveChargedArgs {
  readonly key: string
  readonly from: PaymentState
  readonly to: PaymentState
  readonly atMs: number
  readonly errorReason: string | null
  readonly entries: readonly Values[]
}

export const claimColumns = [
  ...['key', 'network', 'asset', 'payer', 'nonce', 'pay_to', 'amount_atomic', 'valid_before_ms', 'owner'],
  ...['link_id', 'store_id', 'request_hash', 'purchase_id', 'claimed_at_ms', 'updated_at_ms'],
]

export const purchaseColumns = [
  ...['id', 'payment_key', 'link_id', 'store_id', 'buyer_wallet', 'network', 'asset', 'symbol', 'decimals'],
  ...['amount_atomic', 'fee_atomic', 'price_usd', 'tx_hash', 'review_token_hash', 'created_at_ms'],
]

export const entryColumns = ['purchase_id', 'account', 'network', 'asset', 'amount_atomic', 'kind']

/** Not IN: with more than two values SQLite builds a table for it at each run. */
const mayBeSettled = `state = 'settling' OR state = 'pending' OR state = 'reorged'`
const idOfKey = '(SELECT id FROM payments WHERE key = ?)'
const marks = (columns: readonly string[]) => columns.map(() => '?').join(', ')
const charged = chargedStates.map((state) => `'${state}'`).join(', ')

/** The hottest writes, prepared once. Each runs inside the writer's transaction and says what it did. */
export function paymentOperations(database: DatabaseSync) {
  const claimRow = database.prepare(`
    INSERT INTO payments (${claimColumns.join(', ')}, state) VALUES (${marks(claimColumns)}, 'claimed')
    ON CONFLICT (key) DO NOTHING`)
  const payload = database.prepare('INSERT INTO payment_payloads (payment_id, payload) VALUES (?, ?)')
  const claimAgain = database.prepare(`
    UPDATE payments SET ${claimColumns.map((column) => `${column} = ?`).join(', ')},
      state = 'claimed', tx_hash = NULL, error_reason = NULL
    WHERE key = ? AND state = 'rejected'`)
  const payloadAgain = database.prepare(
    `UPDATE payment_payloads SET payload = ? WHERE payment_id = ${idOfKey}`,
  )
  const forgetAttempt = database.prepare(`DELETE FROM attempts WHERE payment_id = ${idOfKey}`)
  const find = database.prepare(`${selectPayment} WHERE p.key = ?`)
  const advance = database.prepare(`
    UPDATE payments SET state = ?, error_reason = coalesce(?, error_reason), updated_at_ms = ?
    WHERE key = ? AND state = ? AND owner = ?`)
  const begin = database.prepare(`
    UPDATE payments SET state = 'settling', updated_at_ms = ?
    WHERE key = ? AND state IN ('claimed', 'verified') AND owner = ?`)
  const attempt = database.prepare(
    `INSERT INTO attempts (payment_id, settler, bytes, tx, sequence) VALUES (${idOfKey}, ?, ?, ?, ?)`,
  )
  const answer = database.prepare(`
    INSERT INTO answers (payment_id, status, headers, body) VALUES (${idOfKey}, ?, ?, ?)
    ON CONFLICT (payment_id) DO UPDATE SET status = excluded.status, headers = excluded.headers, body = excluded.body`)
  const forgetAnswer = database.prepare(`DELETE FROM answers WHERE payment_id = ${idOfKey}`)
  const keepAnswer = database.prepare(`
    INSERT INTO answers (payment_id, status, headers, body)
      SELECT id, ?, ?, ? FROM payments WHERE key = ? AND state NOT IN ('claimed', 'verified', 'rejected')
    ON CONFLICT (payment_id) DO UPDATE SET status = excluded.status, headers = excluded.headers, body = excluded.body`)
  const settle = database.prepare(`
    UPDATE payments SET state = 'settled', tx_hash = ?, error_reason = NULL, updated_at_ms = ?
    WHERE key = ? AND owner = ? AND (${mayBeSettled}) AND purchase_id = ?`)
  const openPurchaseId = database.prepare(`
    SELECT purchase_id FROM payments WHERE key = ? AND owner = ? AND (${mayBeSettled})`)
  const isSettled = database.prepare(`
    SELECT 1 FROM payments JOIN purchases ON purchases.payment_id = payments.id
    WHERE payments.key = ? AND payments.state IN (${charged})`)
  // A purchase that is there already can only be one whose transfer left the chain and came back.
  const purchase = database.prepare(`
    INSERT INTO purchases (payment_id, ${purchaseColumns.join(', ')}, status)
      VALUES (${idOfKey}, ${marks(purchaseColumns)}, 'settled')
    ON CONFLICT (payment_id) DO UPDATE SET status = 'settled', tx_hash = excluded.tx_hash
    WHERE purchases.status = 'reorged'`)
  const insertEntries = (count: number) =>
    database.prepare(`INSERT INTO ledger_entries (line, ${entryColumns.join(', ')}) VALUES
      ${Array.from({ length: count }, () => `(?, ${marks(entryColumns)})`).join(', ')}`)
  const oneEntry = insertEntries(1)
  const fourEntries = insertEntries(4)
  const lastLine = database.prepare('SELECT max(line) AS line FROM ledger_entries WHERE purchase_id = ?')
  const move = database.prepare(`
    UPDATE payments SET state = ?, error_reason = coalesce(?, error_reason), updated_at_ms = ?
    WHERE key = ? AND state = ?`)
  const movePurchase = database.prepare(`UPDATE purchases SET status = ? WHERE payment_id = ${idOfKey}`)
  const landedLate = database.prepare('UPDATE payments SET landed_late = 1 WHERE key = ?')
  const isLandedLate = database.prepare('SELECT 1 FROM payments WHERE key = ? AND landed_late = 1')
  // Only what has a purchase: whatever was given up before it landed bought nothing that could be served.
  const resume = database.prepare(`
    UPDATE payments SET state = 'settled', owner = ?, error_reason = NULL, updated_at_ms = ?
    WHERE key = ? AND state = 'refund_due' AND error_reason = '${lateReason}' AND landed_late = 0`)
  const takeOver = database.prepare(
    'UPDATE payments SET owner = ?, updated_at_ms = ? WHERE key = ? AND owner = ?',
  )
  const heartbeat = database.prepare(`
    INSERT INTO heartbeats (owner, at_ms) VALUES (?, ?) ON CONFLICT (owner) DO UPDATE SET at_ms = excluded.at_ms`)
  const forgetHeartbeats = database.prepare('DELETE FROM heartbeats WHERE at_ms < ?')

  const changed = (statement: typeof advance, values: Values) => Number(statement.run(...values).changes) > 0

  /** @param purchaseId whose entries they all are */
  function book(purchaseId: string, entries: readonly Values[]): void {
    if (entries.length === 0) return
    let line = Number(lastLine.get(purchaseId)?.['line'] ?? -1)
    // A sale's are four: one statement for them is half the work of four.
    if (entries.length === 4) fourEntries.run(...entries.flatMap((values) => [++line, ...values]))
    else for (const values of entries) oneEntry.run(++line, ...values)
  }

  return {
    ...refundOperation(database, book),

    /** Null when the claim was won, else the row that has it. */
    claim([key, values, text]: ClaimArgs): Row | null {
      const { changes, lastInsertRowid } = claimRow.run(...values)
      if (Number(changes) > 0) {
        payload.run(lastInsertRowid, text)
        return null
      }
      if (!changed(claimAgain, [...values, key])) return find.get(key)!
      payloadAgain.run(text, key)
      forgetAttempt.run(key)
      return null
    },

    /** to, errorReason, atMs, key, from, owner */
    advance: (values: Values): boolean => changed(advance, values),

    /** A settlement that never left: the payment may be claimed again, and what it was to get is gone. */
    withdraw({ key, values }: { key: string; values: Values }): boolean {
      if (!changed(advance, values)) return false
      forgetAnswer.run(key)
      return true
    },

    beginSettlement(args: BeginSettlementArgs): boolean {
      if (!changed(begin, [args.atMs, args.key, args.owner])) return false
      attempt.run(args.key, ...args.attempt)
      if (args.answer !== null) answer.run(args.key, ...args.answer)
      return true
    },

    /** status, headers, body, key */
    keepAnswer: (values: Values): boolean => changed(keepAnswer, values),

    settle(args: SettleArgs): boolean {
      const { key, owner, purchaseId } = args
      if (!changed(settle, [args.transaction, args.atMs, key, owner, purchaseId])) {
        const row = openPurchaseId.get(key, owner)
        if (row === undefined) return isSettled.get(key) !== undefined
        throw new ConstraintError(
          `Expected the purchase id that was fixed at the claim, ${row['purchase_id']}, got ${purchaseId}`,
        )
      }
      if (!changed(purchase, [key, ...args.purchase]))
        throw new ConstraintError(`Payment ${key} has a purchase already`)
      book(purchaseId, args.entries)
      return true
    },

    moveCharged({ key, from, to, atMs, errorReason, entries }: MoveChargedArgs): boolean {
      if (!changed(move, [to, errorReason, atMs, key, from])) return false
      if (!changed(movePurchase, [to, key])) {
        // Given up, and found on chain afterwards: somebody's money came in and nothing was sold for it.
        if (from === 'failed_final') landedLate.run(key)
        else if (isLandedLate.get(key) === undefined)
          throw new ConstraintError(`Payment ${key} has no purchase`)
      }
      if (entries.length > 0) book(String(entries[0]![0]), entries)
      return true
    },

    /** values: owner, atMs, key */
    resume({ key, values }: { key: string; values: Values }): boolean {
      if (!changed(resume, values)) return false
      movePurchase.run('settled', key)
      return true
    },

    /** owner, atMs, key, previousOwner */
    takeOver: (values: Values): boolean => changed(takeOver, values),

    /** An owner without a heartbeat counts as silent, so that old ones may go. */
    heartbeat({
      owner,
      atMs,
      forgetBeforeMs,
    }: {
      owner: string
      atMs: number
      forgetBeforeMs: number
    }): void {
      heartbeat.run(owner, atMs)
      forgetHeartbeats.run(forgetBeforeMs)
    },
  }
}
