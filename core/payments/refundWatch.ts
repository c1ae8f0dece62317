import { type PaymentRecord, refundLeftChain } from '../domain/payment.ts'
import type { RefundProofs, RefundVerdict } from '../ports/chains/refundProofs.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/log.ts'
import type { Purchases } from '../ports/store/purchases.ts'
import { type Decisions, pauseMs } from './recoveryDecisions.ts'
import * as rules from './rules.ts'
import { transferBackOf } from './transferBackOf.ts'

export interface RefundWatchParts {
  readonly purchases: Pick<Purchases, 'find' | 'refundOf'>
  readonly refundProofs: RefundProofs
  readonly clock: Clock
  readonly log: Log
}

/** Kept with a row that is put off; the operator reads them, too. */
const notOnChain = 'its refund is not on chain'
const notLookedUp = 'its refund could not be looked up'
/**
 * Lookups that find a refund missing before its seller is told, about four minutes: after a reorganisation most transactions
 * are in another block soon, and a seller who is told too early pays twice.
 */
const MAX_MISSING_LOOKUPS = 8
/** A node whose newest block is older than this, in ms, does not follow the chain: what it does not know may be there. */
const MAX_HEAD_AGE_MS = 120_000
/** A refund that can't be looked up is looked up ever more rarely, up to this, in ms: its seller waits for nothing. */
const LONGEST_PAUSE_MS = 600_000
/** Lookups in a row, none of which could tell, until a refund is left to the operator: a day of them. */
const MAX_UNKNOWN_LOOKUPS = 150

/**
 * Where a refund that was proved is now. `stands` where a node has it in a block, even if it reads otherwise now: the proof was
 * accepted. `missing` only where a node that follows the chain, is past the time of the refund and knows the sale does not have it,
 * or has it as failed. Everything else is `unknown`.
 */
export function whereaboutsOf(
  verdict: RefundVerdict,
  refundedAtMs: number,
  nowMs: number,
): 'stands' | 'missing' | 'unknown' {
  switch (verdict.status) {
    case 'proved':
    case 'mismatch':
      return 'stands'
    case 'reverted':
      return 'missing'
    case 'not_found': {
      const { headMs = 0 } = verdict
      return headMs > Math.max(refundedAtMs, nowMs - MAX_HEAD_AGE_MS) ? 'missing' : 'unknown'
    }
    default:
      return 'unknown'
  }
}

/** Tells sellers of refunds that were proved and then left the chain again: their buyers do not have the money. */
export function createRefundWatch({ purchases, refundProofs, clock, log }: RefundWatchParts) {
  async function whereIs(record: PaymentRecord) {
    const [purchase, refund] = await Promise.all([
      purchases.find(record.purchaseId),
      purchases.refundOf(record.purchaseId),
    ])
    if (purchase === undefined || refund === undefined) return 'stands'
    const verdict = await refundProofs.prove(transferBackOf(purchase, record, refund.transaction))
    return whereaboutsOf(verdict, refund.refundedAtMs, clock.now())
  }

  function missing(record: PaymentRecord, decisions: Decisions): void {
    const { purchaseId, dueReason } = record
    // Attempts before these failed for another reason, such as a node that was down.
    const tries = dueReason === notOnChain ? record.tries : 0
    if (tries < MAX_MISSING_LOOKUPS) return decisions.putOff({ ...record, tries }, notOnChain, pauseMs(tries))
    log.error({ purchaseId }, 'a refund left the chain; its seller is told')
    decisions.change(record, rules.loseRefund(record))
  }

  function back(record: PaymentRecord, decisions: Decisions): void {
    const { purchaseId } = record
    log.error({ purchaseId }, 'a refund is back on chain; if its seller has paid again, two stand')
    decisions.change(record, rules.regainRefund(record))
  }

  return {
    /**
     * Looks up the refunds of these rows and decides those that are missing, or back.
     * @returns the rows whose sales are to be looked up, and those of them whose refund has to be looked up once more
     */
    async lookUp(refunded: readonly PaymentRecord[], decisions: Decisions) {
      const found = await Promise.all(refunded.map(whereIs))
      const unknown = new Set<PaymentRecord>()
      const others: PaymentRecord[] = []
      for (const [i, record] of refunded.entries()) {
        const isTold = record.errorReason === refundLeftChain
        if (isTold && found[i] === 'stands') back(record, decisions)
        else if (isTold || found[i] === 'stands') others.push(record)
        else if (found[i] === 'missing') missing(record, decisions)
        // A node that can't tell does not undo the lookups that found it missing: their count stays.
        else if (record.dueReason === notOnChain)
          decisions.putOff({ ...record, tries: record.tries - 1 }, notOnChain, pauseMs(record.tries))
        else {
          unknown.add(record)
          others.push(record)
        }
      }
      return { others, unknown }
    },

    /** Puts off a row whose sale was looked up, and whose refund could not be. */
    later(record: PaymentRecord, decisions: Decisions): void {
      const { purchaseId, dueReason } = record
      const tries = dueReason === notLookedUp ? record.tries : 0
      if (tries < MAX_UNKNOWN_LOOKUPS)
        return decisions.putOff({ ...record, tries }, notLookedUp, pauseMs(tries, LONGEST_PAUSE_MS))
      log.error({ purchaseId }, 'a refund could not be looked up for a day; check whether it is on chain')
      decisions.putOff({ ...record, tries }, notLookedUp, null)
    },
  }
}
