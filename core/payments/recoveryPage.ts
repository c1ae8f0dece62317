import { neverSent, type PaymentRecord } from '../domain/payment.ts'
import type { SettleOutcome } from '../ports/chains/settler.ts'
import { takenOver } from '../ports/store/ledger.ts'
import { freeUnsent, leaveChain, loosen, stayPending, takeUp } from './reconciliation.ts'
import { Decisions, LONGEST_PAUSE_MS, pauseMs, type RecoveryDeps } from './recoveryDecisions.ts'
import { createRefundWatch, hasRefund } from './refundWatch.ts'
import * as rules from './rules.ts'
import { recoverShared } from './sharedBytes.ts'
import type { SettlerQueries } from './transferWatch.ts'

/** Longest pause between two checks of an open payment that may land or has just expired, in ms. */
const LONGEST_OPEN_PAUSE_MS = 8_000
/**
 * Pause per open payment, in ms. The longest pause is at least this long times the number of open payments, so that a thousand
 * payments do not cause a thousand requests at once.
 */
const OPEN_ROW_MS = 50
/**
 * Maximum pause that other open payments cause for a payment whose outcome its settler expects soon, in ms. It is short, because a
 * Solana block hash is valid for only a minute.
 */
const LONGEST_CROWDED_MS = 15_000
/** How long after a payment's expiry its outcome is certain, in ms, provided that the chain's node responds. */
const SETTLED_BY_MS = 120_000
/**
 * Longest pause between two checks of a concluded payment that cannot be confirmed, in ms. It is long, because no request waits for
 * the result.
 */
const LONGEST_CONFIRM_PAUSE_MS = 600_000
/** Pause between two checks of a payment that is charged but has no response yet, in ms. */
const UNANSWERED_MS = 30_000
/**
 * Pause from the first check of a sale to the second, in ms. The first is 30 s after the sale, and the second five minutes after
 * it. Reorganizations do not go back further.
 */
const SECOND_CHECK_MS = 270_000
/** Pause before a second check has to confirm that a transfer has left the chain, in ms. */
const SUSPECTED_MS = 5_000
/**
 * Maximum checks of a concluded payment without a result, which take about a day. After that, recovery no longer checks the
 * payment.
 */
const MAX_CONFIRM_ATTEMPTS = 150

/**
 * Reasons for which rows are put off. They also determine the next check. The first text is short, because each sale has it for
 * minutes, and a longer text would split its database page.
 */
const seenOnce = 'seen once'
const notOnChain = 'not on chain at the last check; a second one has to agree'

/** Recovers one page of due rows. Each row is changed, or put off with a reason. */
export class RecoveryPage {
  readonly #deps: RecoveryDeps
  readonly #refunds: ReturnType<typeof createRefundWatch>

  constructor(deps: RecoveryDeps) {
    this.#deps = deps
    this.#refunds = createRefundWatch(deps)
  }

  /** Frees claims on which no process works. Nothing was sent, so the buyer may use the payment again. */
  async free(records: readonly PaymentRecord[]): Promise<number> {
    const decisions = new Decisions(this.#deps)
    for (const record of decisions.withoutUnderWay(records))
      decisions.about(record, () => decisions.change(record, rules.free(record, 'abandoned')))
    return decisions.write()
  }

  /** Finds the outcome of open payments. @returns how many moved */
  async resolve(records: readonly PaymentRecord[]): Promise<number> {
    const decisions = new Decisions(this.#deps)
    const taken = await this.#takeUp(decisions.withoutUnderWay(records))
    const late = await decisions.tooLate(taken)
    await decisions.queryEach(taken, this.#recover, (record, outcome, settler) =>
      this.#decideOpen(record, outcome, decisions, taken.length, late, () =>
        settler.booked?.(record, outcome),
      ),
    )
    return decisions.write()
  }

  /** Checks payments with a known outcome again. @returns how many moved */
  async confirm(records: readonly PaymentRecord[]): Promise<number> {
    const decisions = new Decisions(this.#deps)
    const charged: PaymentRecord[] = []
    const abandoned: PaymentRecord[] = []
    const failed: PaymentRecord[] = []
    const others = decisions.withoutUnderWay(records).filter((record) => !hasRefund(record))
    const states = await this.#refunds.fetchRefunds(records.filter(hasRefund), decisions)
    for (const record of [...others, ...states.others]) {
      if (record.state === 'failed_final') failed.push(record)
      else if (this.#isAbandoned(record)) abandoned.push(record)
      else if (isUnchecked(record)) {
        const later = states.later.get(record)
        if (later !== undefined) later()
        else if (hasRefund(record)) confirmed(record, decisions)
        else decisions.recheck(record, null)
      } else charged.push(record)
    }
    // This comes before the requests to the chain, which may take long.
    const owed = await this.owe(abandoned)
    await this.#confirmCharged(charged, decisions, states.later)
    const late = await decisions.tooLate(failed)
    await decisions.queryEach(failed, this.#recover, (record, outcome, settler) => {
      if (outcome.status === 'settled')
        decisions.land(record, outcome, late, () => settler.booked?.(record, outcome))
      else if (outcome.status === 'pending') confirmLater(record, decisions)
      else confirmed(record, decisions)
    })
    return owed + (await decisions.write())
  }

  /** Puts off payments on networks that cannot be queried. */
  async putOffUnreachable(records: readonly PaymentRecord[]): Promise<number> {
    const { chains } = this.#deps
    const decisions = new Decisions(this.#deps)
    for (const record of records)
      if (chains.settler(record.network, record.scheme) === undefined) decisions.putOffUnreachable(record)
    return decisions.write()
  }

  /**
   * Marks payments as owed back that were charged long ago and never collected, or that no process will get a response for. Their
   * rows are withheld meanwhile, because a returning buyer's call would leave a row with the same state and lease, and the change
   * would then mark a payment as owed while its call is running.
   *
   * @returns how many moved
   */
  async owe(records: readonly PaymentRecord[]): Promise<number> {
    const decisions = new Decisions(this.#deps)
    const withheld: (() => void)[] = []
    for (const record of records) {
      const stopWithholding = this.#deps.payments.withhold(record.row)
      if (stopWithholding === undefined) continue
      withheld.push(stopWithholding)
      decisions.about(record, () => decisions.change(record, rules.expire(record)))
    }
    try {
      return await decisions.write()
    } finally {
      for (const stopWithholding of withheld) stopWithholding()
    }
  }

  readonly #recover = (settler: SettlerQueries, records: readonly PaymentRecord[]) =>
    recoverShared(this.#deps.ledger, settler, records)

  /**
   * Moves rows on which no process works to this process's lease, so that a call that was wrongly thought dead can no longer write
   * them.
   */
  async #takeUp(records: readonly PaymentRecord[]): Promise<PaymentRecord[]> {
    const { ledger, lease } = this.#deps
    const settling = records.filter(({ state }) => state === 'settling')
    if (settling.length === 0) return [...records]
    const { id } = lease.current
    const done = await ledger.applyAll(settling.map((record) => takeUp(record, id)))
    const taken = new Set(settling.filter((_, i) => done[i] === true))
    return records.flatMap((record): PaymentRecord[] => {
      if (record.state !== 'settling') return [record]
      return taken.has(record)
        ? [{ ...record, state: 'pending', lease: id, errorReason: 'settlement_pending', tries: 0 }]
        : []
    })
  }

  #decideOpen(
    record: PaymentRecord,
    outcome: SettleOutcome,
    decisions: Decisions,
    open: number,
    late: ReadonlySet<number>,
    whenBooked: () => void,
  ): void {
    const { log } = this.#deps
    const { purchaseId } = record
    switch (outcome.status) {
      case 'settled':
        return decisions.land(record, outcome, late, whenBooked)
      case 'failed_final':
        log.info({ purchaseId, reason: outcome.reason }, 'a payment can never land; nothing was charged')
        return decisions.change(record, rules.giveUp(record, outcome.reason), whenBooked)
      case 'pending': {
        const { reason, message, recheckMs } = outcome
        // The buyer gets this reason. A reorganized payment keeps its own reason, which says what is known about its response.
        if (record.state === 'pending' && message !== undefined && reason !== record.errorReason)
          return decisions.change(record, stayPending(record, reason, recheckMs), whenBooked)
        const crowdedMs = Math.min(open * OPEN_ROW_MS, LONGEST_CROWDED_MS)
        const afterMs =
          recheckMs === undefined
            ? pauseMs(record.tries, this.#longestPauseMs(record, open))
            : Math.max(recheckMs, record.tries === 0 ? 0 : crowdedMs)
        return decisions.putOff(record, message, afterMs)
      }
      case 'rejected':
        // The payment is freed only if an earlier check has written that no process sends these bytes.
        if (record.errorReason !== neverSent) return decisions.putOff(record, outcome.message)
        log.info({ purchaseId }, 'a payment that was never sent is free again; nothing was charged')
        return decisions.change(record, freeUnsent(record))
    }
  }

  /**
   * Longest pause between two checks of an open payment, in ms. If a payment can land or has just expired, its outcome is known
   * within seconds. If many payments are open, each is checked less often, so that the total cost stays the same.
   */
  #longestPauseMs({ validBeforeMs }: PaymentRecord, open: number): number {
    return this.#deps.clock.now() < validBeforeMs + SETTLED_BY_MS
      ? Math.max(LONGEST_OPEN_PAUSE_MS, open * OPEN_ROW_MS)
      : LONGEST_PAUSE_MS
  }

  async #confirmCharged(
    records: readonly PaymentRecord[],
    decisions: Decisions,
    refundLater: ReadonlyMap<PaymentRecord, () => void>,
  ): Promise<void> {
    const { purchases, log } = this.#deps
    const gone: PaymentRecord[] = []
    await decisions.queryEach(
      records,
      (settler, own) => settler.stillOnChain(own),
      (record, isOnChain) => {
        const later = isOnChain === 'no' ? undefined : refundLater.get(record)
        if (later !== undefined) later()
        else if (isOnChain === 'yes') confirmed(record, decisions)
        else if (isOnChain === 'unknown') confirmLater(record, decisions)
        else if (record.dueReason !== notOnChain) decisions.recheck(record, SUSPECTED_MS, notOnChain)
        else gone.push(record)
      },
    )
    for (const record of gone) {
      const { purchaseId, transaction } = record
      const purchase = await purchases.find(purchaseId)
      if (record.state === 'refunded') {
        log.warn(
          { purchaseId, transaction },
          'a payment that was paid back is not on chain where it was recorded',
        )
        decisions.about(record, () => decisions.change(record, loosen(record, purchase)))
        continue
      }
      log.error({ purchaseId, transaction }, 'a settled payment left the chain')
      // The sale leaves the ledger, and is recorded again if the transfer comes back.
      decisions.about(record, () => decisions.change(record, leaveChain(record, purchase)))
    }
  }

  /**
   * Whether a payment was charged first, and its process ended before the seller's API responded, so that the payment gets no
   * response any more.
   */
  #isAbandoned({ state, hasResponse, lease: of, dueReason }: PaymentRecord): boolean {
    return (
      state === 'settled' && !hasResponse && (of === this.#deps.lease.current.id || dueReason === takenOver)
    )
  }
}

/**
 * Whether the transfer of a row cannot be looked up. A call that costs nothing has none. For some rows a facilitator's response is the only trace of the transfer. For
 * others the payment was refunded, and its transfer is not at its recorded place on chain.
 */
const isUnchecked = ({ state, event, chargedAtomic }: PaymentRecord): boolean =>
  chargedAtomic === 0n || (event === null ? state === 'refunded' : event.startsWith('nonce:'))

/** Repeats a check that had no result, with growing pauses, for about a day. */
function confirmLater(record: PaymentRecord, decisions: Decisions): void {
  const { tries } = record
  if (tries >= MAX_CONFIRM_ATTEMPTS) decisions.recheck(record, null)
  else decisions.putOff(record, undefined, pauseMs(tries, LONGEST_CONFIRM_PAUSE_MS))
}

function confirmed(record: PaymentRecord, decisions: Decisions): void {
  // A buyer's call may have taken over the payment since the row was read, so the row is checked again.
  if (record.state === 'settled' && !record.hasResponse) decisions.recheck(record, UNANSWERED_MS)
  else if (record.dueReason === seenOnce) decisions.recheck(record, null)
  else decisions.recheck(record, SECOND_CHECK_MS, seenOnce)
}
