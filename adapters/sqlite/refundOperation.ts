import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { type PaymentState, refundableStates } from '../../core/domain/payment.ts'
import type { RefundResult } from '../../core/ports/payments.ts'

type Values = readonly SQLInputValue[]

export interface RecordRefundArgs {
  readonly key: string
  readonly transaction: string
  readonly paymentKeys: readonly string[]
  readonly atMs: number
  /** Values of `entryColumns` per entry. */
  readonly entries: readonly Values[]
}

/**
 * Prepares the write of a refund. All its questions are asked inside the writer's transaction, so that no other process
 * can use the same transfer between the question and the answer.
 *
 * @param book writes ledger entries of a purchase
 */
export function refundOperation(
  database: DatabaseSync,
  book: (purchaseId: string, entries: readonly Values[]) => void,
) {
  const find = database.prepare(`
    SELECT p.id, p.state, p.network, r.tx_hash FROM payments p LEFT JOIN refunds r ON r.payment_id = p.id
    WHERE p.key = ?`)
  const hasRefunded = database.prepare('SELECT 1 FROM refunds WHERE network = ? AND tx_hash = ?')
  // The words of the index purchases_transaction, so that it is used.
  const hasPaid = database.prepare(`
    SELECT 1 FROM purchases
    WHERE network = ? AND CASE WHEN network LIKE 'eip155:%' THEN lower(tx_hash) ELSE tx_hash END = ?`)
  const isPayment = database.prepare('SELECT 1 FROM payments WHERE key = ?')
  const insert = database.prepare(
    'INSERT INTO refunds (payment_id, network, tx_hash, refunded_at_ms) VALUES (?, ?, ?, ?)',
  )
  const move = database.prepare(`UPDATE payments SET state = 'refunded', updated_at_ms = ? WHERE id = ?`)
  // None for a payment that landed late: it bought nothing.
  const movePurchase = database.prepare(`UPDATE purchases SET status = 'refunded' WHERE payment_id = ?`)

  return {
    recordRefund({ key, transaction, paymentKeys, atMs, entries }: RecordRefundArgs): RefundResult {
      const row = find.get(key)
      if (row === undefined) return 'not_refundable'
      const network = String(row['network'])
      const id = Number(row['id'])
      const hash = network.startsWith('eip155:') ? transaction.toLowerCase() : transaction
      if (row['tx_hash'] !== null) return row['tx_hash'] === hash ? 'refunded' : 'refunded_otherwise'
      if (!isRefundable(row['state'])) return 'not_refundable'
      const isUsed =
        hasRefunded.get(network, hash) !== undefined ||
        hasPaid.get(network, hash) !== undefined ||
        paymentKeys.some((other) => isPayment.get(other) !== undefined)
      if (isUsed) return 'transaction_used'
      insert.run(id, network, hash, atMs)
      move.run(atMs, id)
      movePurchase.run(id)
      if (entries.length > 0) book(String(entries[0]![0]), entries)
      return 'refunded'
    },
  }
}

const isRefundable = (state: unknown): boolean =>
  (refundableStates as readonly PaymentState[]).includes(state as PaymentState)
