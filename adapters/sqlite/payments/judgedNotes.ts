import { randomUUID } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { isTollgateError } from '../../../core/errors/error.ts'
import { EVENTS_KEPT_MS } from '../../../core/ports/store/webhooks.ts'
import type { Database } from '../database.ts'

/** Raised when the ledger check looks at more than before, or more is doubted: what was found right by fewer rules is looked at again. */
const RULES = 2

export interface Counts {
  readonly purchases: number
  readonly chargedPayments: number
  readonly refundDue: number
}

/** A day, or a month such as `2026-05`, and its payments: the rows after `from`, up to `to`. */
export interface Span {
  readonly name: number | string
  readonly from: number
  readonly to: number
  readonly endMs: number
}

/**
 * What the ledger check has found right, so that it need not look at it again. A note is made before the look and said to be right
 * after it: triggers take it away when something of its time moves, also in between. Nothing is noted of the time of which
 * webhooks' events are kept, or where nothing can be written.
 */
export function judgedNotes(database: DatabaseSync, writer: Database['writer'], nowMs: number) {
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
  const notesIn = (table: 'judged_days' | 'judged_months', name: 'day' | 'month') => {
    const right = find(table, name)
    // The last day has all payments that come later.
    const isNoted = ({ to, endMs }: Span) => to < Number.MAX_SAFE_INTEGER && endMs <= nowMs - EVENTS_KEPT_MS
    return {
      /** What was counted when the span was found right; undefined of what has to be looked at. */
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
  return { days: notesIn('judged_days', 'day'), months: notesIn('judged_months', 'month') }
}
