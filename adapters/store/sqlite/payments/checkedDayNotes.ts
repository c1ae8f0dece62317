import { randomUUID } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { isTollgateError } from '../../../../core/errors/error.ts'
import { EVENT_RETENTION_MS } from '../../../../core/ports/store/webhooks.ts'
import type { Database } from '../connect.ts'

/**
 * Version of the ledger check's rules. Raise it when the check covers more than before or a trigger deletes more notes. Then days
 * that passed fewer rules are checked again.
 */
const RULES = 2

export interface Counts {
  readonly purchases: number
  readonly chargedPayments: number
  readonly refundDue: number
}

/** A day, or a month such as `2026-05`. Its payments are the rows after `from` and up to `to`. */
export interface Span {
  readonly name: number | string
  readonly from: number
  readonly to: number
  readonly endMs: number
}

/**
 * Days and months without findings, which the next ledger check can skip. The check writes a note before it starts on a day, and
 * marks the note as right afterwards. Triggers delete the note when a row of that time changes, even while the check runs. A time
 * whose webhook events are still stored gets no note. If the database cannot be written, no time gets one.
 */
export function checkedDayNotes(database: DatabaseSync, writer: Database['writer'], nowMs: number) {
  const run = randomUUID()
  const find = (table: string, name: string) =>
    database.prepare(`SELECT purchases, charged, refund_due FROM ${table}
      WHERE ${name} = ? AND first_id = ? AND last_id = ? AND rules = ${RULES} AND is_right = 1`)
  const write = async (sql: string, ...parameters: (string | number)[]): Promise<void> => {
    try {
      await writer.write('run', { sql, parameters }, 'visible')
    } catch (error) {
      if (!isTollgateError(error)) throw error
    }
  }
  const notesIn = (table: 'ledger_checked_days' | 'ledger_checked_months', name: 'day' | 'month') => {
    const right = find(table, name)
    // The last day contains all later payments, so it gets no note.
    const isNoted = ({ to, endMs }: Span) =>
      to < Number.MAX_SAFE_INTEGER && endMs <= nowMs - EVENT_RETENTION_MS
    return {
      /** The counts of a span that was found right. Undefined for a span that must be checked. */
      right({ name, from, to }: Span): Counts | undefined {
        const row = right.get(name, from, to)
        return (
          row && {
            purchases: Number(row['purchases']),
            chargedPayments: Number(row['charged']),
            refundDue: Number(row['refund_due']),
          }
        )
      },
      async begin(span: Span): Promise<void> {
        if (isNoted(span))
          await write(
            `INSERT OR REPLACE INTO ${table} (${name}, first_id, last_id, rules, run) VALUES (?, ?, ?, ${RULES}, ?)`,
            ...[span.name, span.from, span.to, run],
          )
      },
      async foundRight(span: Span, { purchases, chargedPayments, refundDue }: Counts): Promise<void> {
        if (isNoted(span))
          await write(
            `UPDATE ${table} SET is_right = 1, purchases = ?, charged = ?, refund_due = ? WHERE ${name} = ? AND run = ?`,
            ...[purchases, chargedPayments, refundDue, span.name, run],
          )
      },
    }
  }
  return { days: notesIn('ledger_checked_days', 'day'), months: notesIn('ledger_checked_months', 'month') }
}
