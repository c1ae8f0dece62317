import type { DatabaseSync } from 'node:sqlite'
import type { Purchase } from '../../../../core/domain/purchase.ts'
import { MAX_SETTLEMENT_FAILURES } from '../../../../core/domain/session.ts'
import type { SessionMove } from '../../../../core/ports/store/ledger.ts'

export interface SessionArgs extends SessionMove {
  /** Wall-clock time. */
  readonly nowMs: number
  /** Set for `confirm`. */
  readonly paid?: Pick<Purchase, 'id' | 'txHash' | 'network' | 'buyerWallet'>
}

/** Returns the arguments for the writer thread. */
export function sessionArgs(
  { id, does }: SessionMove,
  purchase: Purchase | undefined,
  nowMs: number,
): SessionArgs {
  if (purchase === undefined) return { id, does, nowMs }
  const { id: purchaseId, txHash, network, buyerWallet } = purchase
  return { id, does, nowMs, paid: { id: purchaseId, txHash, network, buyerWallet } }
}

const payable = `state = 'open' AND payment_id IS NULL AND expires_at_ms > :now`
const linkIsGone = `EXISTS (SELECT 1 FROM links l WHERE l.id = payment_sessions.link_id AND l.is_active = 0)`

/**
 * Releases the session of a payment that failed. The session is then open again or has ended.
 * @param isOver SQL: whether it ends
 */
const releaseSql = (isOver: string) => `
  payment_id = NULL, state = CASE WHEN ${isOver} THEN 'failed' ELSE state END,
  ended_at_ms = CASE WHEN ${isOver} THEN :now ELSE ended_at_ms END
  WHERE id = :id AND payment_id = :row AND state = 'open'`

/** The effects of payment changes on their sessions, inside the writer's transaction. */
export function sessionMoves(database: DatabaseSync) {
  const mayTake = database.prepare(`SELECT 1 FROM payment_sessions WHERE id = :id AND ${payable}`)
  const take = database.prepare('UPDATE payment_sessions SET payment_id = :row WHERE id = :id')
  const mayConfirm = database.prepare(`
    SELECT 1 FROM payment_sessions WHERE id = :id
      AND ((payment_id = :row AND (state = 'open' OR state = 'confirmed')) OR (${payable}))`)
  const confirm = database.prepare(`
    UPDATE payment_sessions SET state = 'confirmed', ended_at_ms = coalesce(ended_at_ms, :now), payment_id = :row,
      purchase_id = :purchase, tx_hash = :tx, network = :network, buyer_wallet = :buyer
    WHERE id = :id`)
  const release = database.prepare(`UPDATE payment_sessions SET ${releaseSql(linkIsGone)}`)
  const fail = database.prepare(`
    UPDATE payment_sessions SET failures = failures + 1,
      ${releaseSql(`(failures + 1 >= ${MAX_SETTLEMENT_FAILURES} OR ${linkIsGone})`)}`)

  return {
    /** Whether the condition of a move is true. */
    may(row: number, { id, does, nowMs: now }: SessionArgs): boolean {
      if (does === 'take') return mayTake.get({ id, now }) !== undefined
      return does !== 'confirm' || mayConfirm.get({ id, row, now }) !== undefined
    },

    move(row: number, { id, does, nowMs: now, paid }: SessionArgs): void {
      switch (does) {
        case 'take':
          return void take.run({ id, row })
        case 'release':
          return void release.run({ id, row, now })
        case 'fail':
          return void fail.run({ id, row, now })
        case 'confirm': {
          if (paid === undefined) throw new Error(`Expected the purchase that confirms session ${id}.`)
          const { id: purchase, txHash: tx, network, buyerWallet: buyer } = paid
          return void confirm.run({ id, row, now, purchase, tx, network, buyer })
        }
      }
    },
  }
}
