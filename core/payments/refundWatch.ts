import { type PaymentRecord, refundedTwice, refundLeftChain } from '../domain/payment.ts'
import type { Purchase, Refund } from '../domain/purchase.ts'
import { type RefundProofs, type RefundVerdict, transferBackOf } from '../ports/chains/refundProofs.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/log.ts'
import type { TransferBackFound } from '../ports/store/ledger.ts'
import type { Purchases } from '../ports/store/purchases.ts'
import { loseRefund, noteRefundedTwice, regainRefund } from './reconciliation.ts'
import { type Decisions, pauseMs } from './recoveryDecisions.ts'

export interface RefundWatchDeps {
  readonly purchases: Pick<Purchases, 'find' | 'refundOf' | 'lostRefundsOf'>
  readonly refundProofs: RefundProofs
  readonly clock: Clock
  readonly log: Log
}

/** Reasons for which rows are put off. Operators read them too. */
const uncheckedReason = 'its refund could not be looked up'
const notRecorded = 'its refund is back on chain, and could not be recorded'
const foundAgain = 'its refund is on chain, and was missing before'
const notOnChain = (checks: number) => `its refund is not on chain (lookups: ${checks})`
/**
 * How many lookups found the refund missing. The number is in the row's reason, because `tries` counts only consecutive lookups
 * without a result.
 */
const missingChecks = ({ dueReason }: PaymentRecord): number =>
  Number(/^its refund is not on chain \(lookups: (\d+)\)$/.exec(dueReason ?? '')?.[1] ?? 0)
/**
 * Maximum lookups that find a refund missing before its seller is notified, which take about four minutes. After a reorganization
 * most transactions are soon in another block, and a seller who is notified too early refunds twice.
 */
const MAX_MISSING_CHECKS = 8
/**
 * Maximum age of a node's newest block, in ms. A node with an older newest block does not follow the chain, so a transaction that
 * it lacks may exist.
 */
const MAX_HEAD_AGE_MS = 120_000
/**
 * Longest pause between two checks of a refund that cannot be found or recorded, in ms. It is long, because the seller is not waiting.
 */
const LONGEST_PAUSE_MS = 600_000
/** Maximum consecutive lookups without a result, which take about a day. After that, the refund is left to the operator. */
const MAX_UNKNOWN_CHECKS = 150
/**
 * How long recovery searches for a refund that left the chain, in ms. The refund may land late, after another refund has replaced
 * it.
 */
const LOST_WATCHED_MS = 86_400_000
/**
 * Minimum pause between two searches for a lost refund, in ms. If it is longer, the pause is a quarter of the time since the refund
 * left the chain.
 */
const SHORTEST_LOST_PAUSE_MS = 30_000

/**
 * Where a proved refund is now. `stands`: a node has the refund in a block, and it moves the money there. The sale may be in a
 * later block, which does not matter, because the proof was accepted. `missing`: the node does not have the refund, or has it as
 * failed, although the node follows the chain, has the sale, and is past the time of the refund. `unknown`: any other case, because
 * a contract may behave differently in another block.
 */
export function whereaboutsOf(
  verdict: RefundVerdict,
  refundedAtMs: number,
  nowMs: number,
): 'stands' | 'missing' | 'unknown' {
  switch (verdict.status) {
    case 'proved':
      return 'stands'
    case 'mismatch':
      return verdict.what === 'order' ? 'stands' : 'unknown'
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

/** Whether a refund of the payment has to be looked up, because the payment was refunded or its refund left the chain. */
export const hasRefund = ({ state, errorReason }: PaymentRecord): boolean =>
  state === 'refunded' || (state === 'refund_due' && errorReason === refundLeftChain)

/** The known refunds of a row. */
interface Found {
  readonly purchase: Purchase
  /** The refund that is valid now. Undefined if there is none. */
  readonly refund: Refund | undefined
  readonly whereabouts: 'stands' | 'missing' | 'unknown'
  /** A refund that left the chain and is on chain again. */
  readonly returned: TransferBackFound | undefined
  /** When the last refund left the chain. Undefined if none did. */
  readonly lostAtMs: number | undefined
}

/**
 * Marks purchases as owed again if their recorded refund has left the chain, and as refunded if it has come back. It notifies their
 * sellers.
 */
export function createRefundWatch({ purchases, refundProofs, clock, log }: RefundWatchDeps) {
  async function find(record: PaymentRecord): Promise<Found | undefined> {
    const { purchaseId } = record
    const [purchase, refund, lost] = await Promise.all([
      purchases.find(purchaseId),
      purchases.refundOf(purchaseId),
      purchases.lostRefundsOf(purchaseId),
    ])
    if (purchase === undefined) return undefined
    const whereIs = async (one: Refund) => {
      const verdict = await refundProofs.prove(transferBackOf(purchase, record, one.transaction))
      return {
        network: one.network,
        transaction: one.transaction,
        paymentKeys: verdict.status === 'proved' ? verdict.paymentKeys : [],
        whereabouts: whereaboutsOf(verdict, one.refundedAtMs, clock.now()),
      }
    }
    const [present, ...ofLost] = await Promise.all([refund && whereIs(refund), ...lost.map(whereIs)])
    return {
      purchase,
      refund,
      whereabouts: present?.whereabouts ?? 'stands',
      returned: ofLost.find((one) => one.whereabouts === 'stands'),
      lostAtMs: lost.at(-1)?.lostAtMs,
    }
  }

  /** @returns whether it has decided the row's outcome */
  function decide(record: PaymentRecord, found: Found, decisions: Decisions): boolean {
    const { purchaseId, state, errorReason } = record
    const { purchase, refund, whereabouts, returned } = found
    const transaction = returned?.transaction
    if (state === 'refund_due') {
      if (returned === undefined) return false
      decisions.change(record, regainRefund(record, purchase, returned), () =>
        log.warn({ purchaseId, transaction }, 'a refund is back on chain, and recorded again'),
      )
      // Puts the row off in case the change fails. If the refund was recorded meanwhile, the payment is not `refund_due`, so this
      // changes nothing.
      const { tries } = record
      decisions.putOff(
        record,
        notRecorded,
        tries < MAX_UNKNOWN_CHECKS ? pauseMs(tries, LONGEST_PAUSE_MS) : null,
      )
      return true
    }
    if (refund !== undefined && whereabouts === 'missing') {
      missing(record, found, refund, decisions)
      return true
    }
    if (returned === undefined || whereabouts !== 'stands' || errorReason === refundedTwice) return false
    decisions.change(record, noteRefundedTwice(record), () =>
      log.error(
        { purchaseId, transaction },
        'a refund is back on chain after another one replaced it: both are valid',
      ),
    )
    return true
  }

  function missing(
    record: PaymentRecord,
    { purchase, returned }: Found,
    refund: Refund,
    decisions: Decisions,
  ): void {
    const { purchaseId } = record
    const { transaction } = refund
    const checks = missingChecks(record)
    if (checks < MAX_MISSING_CHECKS)
      return decisions.putOff({ ...record, tries: 0 }, notOnChain(checks + 1), pauseMs(checks))
    decisions.change(record, loseRefund(record, purchase, refund, returned !== undefined), () =>
      log.error({ purchaseId, transaction }, 'a refund left the chain; its purchase is to be refunded again'),
    )
  }

  /**
   * Puts off a row whose refund could not be looked up, although its sale could. Earlier lookups that found the refund missing
   * still count.
   */
  function unknown(record: PaymentRecord, decisions: Decisions): void {
    const { purchaseId, dueReason } = record
    const checks = missingChecks(record)
    const tries = checks > 0 || dueReason === uncheckedReason ? record.tries : 0
    const reason = checks > 0 ? notOnChain(checks) : uncheckedReason
    if (tries < MAX_UNKNOWN_CHECKS)
      return decisions.putOff({ ...record, tries }, reason, pauseMs(tries, LONGEST_PAUSE_MS))
    log.error({ purchaseId }, 'a refund could not be looked up for a day; check whether it is on chain')
    decisions.putOff({ ...record, tries }, reason, null)
  }

  /** Pause before a lost refund is looked up again, in ms. Undefined if only the sale has to be looked up again. */
  function watchedPauseMs(record: PaymentRecord, { lostAtMs }: Found): number | undefined {
    const sinceMs = lostAtMs === undefined ? LOST_WATCHED_MS : clock.now() - lostAtMs
    if (sinceMs < LOST_WATCHED_MS)
      return Math.round(Math.min(Math.max(sinceMs / 4, SHORTEST_LOST_PAUSE_MS), LONGEST_PAUSE_MS))
    return missingChecks(record) > 0 ? SHORTEST_LOST_PAUSE_MS : undefined
  }

  /** Puts a row off. Earlier lookups that found the refund missing no longer count. */
  const recheck = (record: PaymentRecord, afterMs: number, decisions: Decisions): void =>
    decisions.recheck(record, afterMs, missingChecks(record) > 0 ? foundAgain : undefined)

  return {
    /**
     * Looks up the refunds of these rows, and decides the rows whose refund is missing or on chain again.
     *
     * @returns the rows whose sales have to be looked up. If a row's refund has to be looked up again, `later` has a function that
     *   puts the row off
     */
    async fetchRefunds(records: readonly PaymentRecord[], decisions: Decisions) {
      const states = await Promise.all(records.map(find))
      const later = new Map<PaymentRecord, () => void>()
      const others: PaymentRecord[] = []
      for (const [i, record] of records.entries()) {
        const found = states[i]
        decisions.about(record, () => {
          if (found !== undefined && decide(record, found, decisions)) return
          others.push(record)
          if (found === undefined) return
          if (found.whereabouts === 'unknown') return void later.set(record, () => unknown(record, decisions))
          const pauseMs = watchedPauseMs(record, found)
          if (pauseMs !== undefined) later.set(record, () => recheck(record, pauseMs, decisions))
        })
      }
      return { others, later }
    },
  }
}
