import type { Ledger } from '../../../core/ports/store/ledger.ts'
import { type CallsOf, free, numbers, part, type Reads, type Steps, type Tx } from './transaction.ts'

/** Maximum number of bytes of responses that a call deletes. A larger response is deleted on its own. */
const MAX_BYTES = 4 * 1_048_576
/** Maximum number of rows that a call deletes. Payments wait for the call. */
const MAX_ROWS = 200
/** A search for old rows ends after this many rows in a row that are too young. The row numbers follow the age only roughly. */
const MAX_RECENT_IN_A_ROW = 1_000

/**
 * Deletes data of old payments that is no longer needed. If another transaction is changing a payment, the next call handles that
 * payment.
 */
export const retentionWrites = {
  *deleteResponses(tx: Tx, rows: readonly number[], updatedBeforeMs: number): Steps<number> {
    return yield* tx.run`DELETE FROM responses WHERE payment_id IN (
      SELECT p.id FROM payments p WHERE p.id IN ${numbers(rows)} AND p.updated_at_ms < ${updatedBeforeMs}
        AND p.state <> 'settling' AND p.state <> 'pending' ${free})`
  },

  *deleteDelivered(tx: Tx, rows: readonly number[], claimedBeforeMs: number): Steps<number> {
    return yield* tx.run`DELETE FROM responses WHERE payment_id IN (
      SELECT p.id FROM payments p WHERE p.id IN ${numbers(rows)} AND p.claimed_at_ms < ${claimedBeforeMs}
        AND p.state = 'delivered' ${free})`
  },

  *deleteSigned(tx: Tx, rows: readonly number[], updatedBeforeMs: number): Steps<void> {
    const over = yield* tx.all<{ id: number; network: string }>`
      SELECT p.id, p.network FROM payments p WHERE p.id IN ${numbers(rows)} AND ${isOver(updatedBeforeMs)} ${free}`
    const ids = over.map(({ id }) => id)
    yield* tx.run`DELETE FROM payment_payloads WHERE payment_id IN ${numbers(ids)}`
    yield* tx.run`UPDATE payments SET identifier = NULL WHERE id IN ${numbers(ids)} AND identifier IS NOT NULL`
    const found = over.flatMap(({ id, network }) => (network.startsWith('solana:') ? [] : [id]))
    yield* tx.run`DELETE FROM attempts WHERE payment_id IN ${numbers(found)}`
  },
}

/** Whether the signed bytes of a payment `p` are no longer needed. See the port. */
const isOver = (
  updatedBeforeMs: number,
) => part`(p.updated_at_ms < ${updatedBeforeMs} AND (p.state = 'rejected'
  OR ((p.state = 'delivered' OR p.state = 'refunded') AND p.due_at_ms IS NULL
    AND (p.tx_hash IS NOT NULL OR p.charged_atomic = '0')
    AND (p.network NOT LIKE 'solana:%' OR EXISTS (
      SELECT 1 FROM attempts s WHERE s.payment_id = p.id AND (s.bytes <> '' OR s.is_shared = 1))))))`

interface Answered {
  readonly id: number
  readonly state: string
  readonly claimed_at_ms: number
  readonly updated_at_ms: number
  readonly bytes: number
}

/** Deletes data of old payments that is no longer needed. It does so in steps, so that no payment waits long. */
export function createRetention(
  { retention }: { readonly retention: CallsOf<typeof retentionWrites> },
  reads: Reads,
): Pick<Ledger, 'forgetResponses' | 'forgetSigned' | 'forgetDelivered'> {
  const answeredAfter = (row: number, limit: number) => reads.all<Answered>`
    SELECT p.id, p.state, p.claimed_at_ms, p.updated_at_ms, length(a.body) AS bytes
    FROM responses a JOIN payments p ON p.id = a.payment_id
    WHERE a.payment_id > ${row} ORDER BY a.payment_id LIMIT ${limit} + 0`

  async function oldResponses(updatedBeforeMs: number, limit: number): Promise<Answered[]> {
    const old: Answered[] = []
    let young = 0
    for (let after = 0; ; ) {
      const page = await answeredAfter(after, MAX_ROWS)
      for (const one of page) {
        if (old.length === limit || young === MAX_RECENT_IN_A_ROW) return old
        young = one.claimed_at_ms >= updatedBeforeMs ? young + 1 : 0
        const isOpen = one.state === 'settling' || one.state === 'pending'
        if (!isOpen && one.updated_at_ms < updatedBeforeMs) old.push(one)
      }
      if (page.length < MAX_ROWS) return old
      after = page.at(-1)!.id
    }
  }

  return {
    async forgetResponses(updatedBeforeMs, limit) {
      let deleted = 0
      for (const rows of inPieces(await oldResponses(updatedBeforeMs, limit)))
        deleted += await retention.deleteResponses(rows, updatedBeforeMs)
      return deleted
    },

    async forgetSigned(updatedBeforeMs, afterRow, limit) {
      const page = await reads.all<{ id: number; claimed_at_ms: number; is_over: number }>`
        SELECT p.id, p.claimed_at_ms, CASE WHEN ${isOver(updatedBeforeMs)} THEN 1 ELSE 0 END AS is_over
        FROM payment_payloads l JOIN payments p ON p.id = l.payment_id
        WHERE l.payment_id > ${afterRow} ORDER BY l.payment_id LIMIT ${limit} + 0`
      const oldPage = upToLastOld(page, updatedBeforeMs)
      const over = oldPage.flatMap(({ id, is_over: isOver }) => (isOver === 1 ? [id] : []))
      if (over.length > 0) await retention.deleteSigned(over, updatedBeforeMs)
      return oldPage.at(-1)?.id ?? 0
    },

    async forgetDelivered(claimedBeforeMs, afterRow, limit) {
      const oldPage = upToLastOld(await answeredAfter(afterRow, limit), claimedBeforeMs)
      const delivered = oldPage.filter(
        (one) => one.state === 'delivered' && one.claimed_at_ms < claimedBeforeMs,
      )
      for (const rows of inPieces(delivered)) await retention.deleteDelivered(rows, claimedBeforeMs)
      return oldPage.at(-1)?.id ?? 0
    },
  }
}

const upToLastOld = <One extends { readonly claimed_at_ms: number }>(
  page: readonly One[],
  beforeMs: number,
) => page.slice(0, page.findLastIndex((one) => one.claimed_at_ms < beforeMs) + 1)

function inPieces(responses: readonly Answered[]): number[][] {
  const pieces: number[][] = []
  let room = 0
  for (const { id, bytes } of responses) {
    if (room < bytes || pieces.at(-1)!.length === MAX_ROWS) {
      pieces.push([])
      room = MAX_BYTES
    }
    pieces.at(-1)!.push(id)
    room -= bytes
  }
  return pieces
}
