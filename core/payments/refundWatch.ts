import type { PaymentRecord } from '../domain/payment.ts'
import type { RefundProofs, RefundVerdict } from '../ports/chains/refundProofs.ts'
import type { Log } from '../ports/log.ts'
import type { Purchases } from '../ports/store/purchases.ts'
import { type Decisions, pauseMs } from './recoveryDecisions.ts'
import * as rules from './rules.ts'
import { transferBackOf } from './transferBackOf.ts'

export interface RefundWatchParts {
  readonly purchases: Pick<Purchases, 'find' | 'refundOf'>
  readonly refundProofs: RefundProofs
  readonly log: Log
}

/** Kept with a row that is put off; the operator reads it, too. */
const notOnChain = 'its refund is not on chain'
/**
 * Looks that find a refund missing before its seller is told, about four minutes: after a reorganisation most transactions
 * are in another block soon, and a seller who is told too early pays twice.
 */
const MAX_MISSING_LOOKS = 8

const gone: ReadonlySet<RefundVerdict['status']> = new Set(['not_found', 'reverted', 'mismatch'])

/** Tells sellers of refunds that were proved and then left the chain again: their buyers do not have the money. */
export function createRefundWatch({ purchases, refundProofs, log }: RefundWatchParts) {
  async function isGone(record: PaymentRecord): Promise<boolean> {
    const [purchase, refund] = await Promise.all([
      purchases.find(record.purchaseId),
      purchases.refundOf(record.purchaseId),
    ])
    if (purchase === undefined || refund === undefined) return false
    return gone.has((await refundProofs.prove(transferBackOf(purchase, record, refund.transaction))).status)
  }

  return {
    /** @returns the rows whose refund is on chain, or cannot be looked up; the others are decided */
    async standing(refunded: readonly PaymentRecord[], decisions: Decisions): Promise<PaymentRecord[]> {
      const missing = await Promise.all(refunded.map(isGone))
      return refunded.filter((record, i) => {
        if (!missing[i]) return true
        const { purchaseId, dueReason } = record
        // Attempts before these failed for another reason, such as a node that was down.
        const tries = dueReason === notOnChain ? record.tries : 0
        if (tries < MAX_MISSING_LOOKS) decisions.putOff({ ...record, tries }, notOnChain, pauseMs(tries))
        else {
          log.error({ purchaseId }, 'a refund left the chain; its seller is told')
          decisions.change(record, rules.loseRefund(record))
        }
        return false
      })
    },
  }
}
