import type { SQLInputValue } from 'node:sqlite'
import type { LedgerEntry } from '../../core/domain/ledger.ts'
import { mayMove, type PaymentState } from '../../core/domain/payment.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Payments } from '../../core/ports/payments.ts'
import type { Database } from './database.ts'
import { ConstraintError, reading } from './failure.ts'
import {
  answerValues,
  attemptValues,
  claimValues,
  entryValues,
  purchaseValues,
  selectPayment,
  toPaymentRecord,
} from './paymentRows.ts'

/** Heartbeats this old are removed: whoever has none counts as silent too. */
const heartbeatKeptMs = 24 * 60 * 60 * 1000

/** Where advance() may lead. The other states come with facts (bytes, a purchase), so each has a method that takes them. */
const plainStates = new Set<PaymentState>(['verified', 'rejected', 'pending', 'failed_final'])

/** Payments in SQLite. The conditions stand in the statements' WHERE clauses; see `paymentOperations.ts`. */
export function createPayments({ reader, writer, clock }: Database): Payments {
  const findRow = reader.prepare(`${selectPayment} WHERE p.key = ?`)

  return {
    async claim(request) {
      const row = await writer.write('claim', [
        request.key,
        claimValues(request, clock.now()),
        request.payload,
      ])
      return row === null
        ? { won: true, purchaseId: request.purchaseId }
        : { won: false, record: toPaymentRecord(row) }
    },

    async advance(key, owner, from, to, errorReason) {
      requireArrow(from, to)
      if (!plainStates.has(to)) {
        throw new Error(`Expected a state that advance() leads to, got ${to}: it has a method of its own.`)
      }
      const values = [to, errorReason ?? null, clock.now(), key, from, owner]
      if (from === 'settling' && to === 'rejected') return writer.write('withdraw', { key, values })
      return writer.write('advance', values)
    },

    async beginSettlement(key, owner, attempt, answer) {
      return writer.write('beginSettlement', {
        key,
        owner,
        atMs: clock.now(),
        attempt: attemptValues(attempt),
        answer: answer && answerValues(answer),
      })
    },

    async settle(key, owner, transaction, purchase, entries) {
      if (purchase.paymentKey !== key || purchase.txHash !== transaction) {
        throw new Error(
          `Expected a purchase of payment ${key} by ${transaction}, got one of another payment.`,
        )
      }
      try {
        return await writer.write('settle', {
          key,
          owner,
          atMs: clock.now(),
          transaction,
          purchaseId: purchase.id,
          purchase: purchaseValues(purchase),
          entries: bookable(entries, purchase.id),
        })
      } catch (error) {
        if (!(error instanceof ConstraintError) || !error.message.includes('purchases_transaction'))
          throw error
        throw new TollgateError(
          'CONFLICT',
          `Transaction ${transaction} on ${purchase.network} has settled another payment; ` +
            `payment ${key} was not settled. Look at both by hand: one transfer buys one call.`,
          { cause: error },
        )
      }
    },

    async keepAnswer(key, answer) {
      await writer.write('keepAnswer', [...answerValues(answer), key])
    },

    async moveCharged(key, from, to, entries, errorReason) {
      requireArrow(from, to)
      return writer.write('moveCharged', {
        key,
        from,
        to,
        atMs: clock.now(),
        errorReason: errorReason ?? null,
        entries: bookable(entries),
      })
    },

    async recordRefund(key, { transaction, paymentKeys }, entries) {
      const atMs = clock.now()
      return writer.write('recordRefund', {
        ...{ key, transaction, paymentKeys, atMs },
        entries: bookable(entries),
      })
    },

    async resume(key, owner) {
      return writer.write('resume', { key, values: [owner, clock.now(), key] })
    },

    async find(key) {
      const row = reading(() => findRow.get(key))
      return row && toPaymentRecord(row)
    },

    async list(filter) {
      const { states, settler, silentOwnersBeforeMs, updatedBeforeMs, updatedAfterMs, limit } = filter
      const where: string[] = [`p.state IN (${states.map(() => '?').join(', ')})`]
      const values: SQLInputValue[] = [...states]
      const and = (condition: string, value: SQLInputValue | undefined) => {
        if (value === undefined) return
        where.push(condition)
        values.push(value)
      }
      and('s.settler = ?', settler)
      and('p.updated_at_ms < ?', updatedBeforeMs)
      and('p.updated_at_ms >= ?', updatedAfterMs)
      and('coalesce(h.at_ms, -1) < ?', silentOwnersBeforeMs)
      if (filter.isUnanswered) where.push('a.payment_id IS NULL')
      const order = filter.isNewestFirst ? 'DESC' : 'ASC'
      const sql = `${selectPayment} LEFT JOIN heartbeats h ON h.owner = p.owner
        WHERE ${where.join(' AND ')} ORDER BY p.updated_at_ms ${order}, p.id ${order} LIMIT ?`
      return reading(() => reader.prepare(sql).all(...values, limit)).map(toPaymentRecord)
    },

    async takeOver(key, previousOwner, owner) {
      return writer.write('takeOver', [owner, clock.now(), key, previousOwner])
    },

    async heartbeat(owner) {
      const atMs = clock.now()
      await writer.write('heartbeat', { owner, atMs, forgetBeforeMs: atMs - heartbeatKeptMs })
    },

    async forgetAnswers(updatedAfterMs, updatedBeforeMs) {
      // Whoever's outcome is open still waits for the answer; the states before that have none.
      const sql = `DELETE FROM answers WHERE payment_id IN (SELECT id FROM payments
        WHERE state IN (${answeredStates}) AND updated_at_ms >= ? AND updated_at_ms < ?)`
      const { changes } = await writer.write('run', { sql, parameters: [updatedAfterMs, updatedBeforeMs] })
      return changes
    },
  }
}

const answeredStates = ['settled', 'delivered', 'failed_final', 'refund_due', 'refunded', 'reorged']
  .map((state) => `'${state}'`)
  .join(', ')

function requireArrow(from: PaymentState, to: PaymentState): void {
  if (!mayMove(from, to)) throw new Error(`Expected an arrow of the payment's states, got ${from} to ${to}.`)
}

/** The rows of entries that belong together and cancel out; anything else is a mistake that must not reach the books. */
function bookable(entries: readonly LedgerEntry[], purchaseId?: string): SQLInputValue[][] {
  const sums = new Map<string, bigint>()
  for (const entry of entries) {
    const asset = `${entry.network} ${entry.asset}`
    sums.set(asset, (sums.get(asset) ?? 0n) + entry.amountAtomic)
    if (entry.purchaseId !== (purchaseId ?? entries[0]!.purchaseId)) {
      throw new Error(`Expected ledger entries of purchase ${purchaseId}, got one of ${entry.purchaseId}.`)
    }
  }
  for (const [asset, sum] of sums) {
    if (sum !== 0n) throw new Error(`Expected ledger entries that add up to zero, got ${sum} of ${asset}.`)
  }
  return entries.map(entryValues)
}
