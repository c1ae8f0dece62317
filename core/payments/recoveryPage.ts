import type { NetworkId } from '../domain/network.ts'
import { neverSent, type PaymentRecord } from '../domain/payment.ts'
import { mayConfirm } from '../domain/session.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { RefundProofs } from '../ports/chains/refundProofs.ts'
import type { Settled, SettleOutcome } from '../ports/chains/settler.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/log.ts'
import { type Books, takenOver } from '../ports/store/books.ts'
import type { Lease } from '../ports/store/leases.ts'
import type { Purchases } from '../ports/store/purchases.ts'
import type { Sessions } from '../ports/store/sessions.ts'
import type { Payments } from './payments.ts'
import { assetOf, type PurchaseNotes } from './purchase.ts'
import { Decisions, LONGEST_PAUSE_MS, pauseMs } from './recoveryDecisions.ts'
import { createRefundWatch } from './refundWatch.ts'
import * as rules from './rules.ts'
import { recoverShared } from './sharedBytes.ts'
import type { Looks } from './transferWatch.ts'

export interface RecoveryParts {
  readonly books: Books
  readonly payments: Pick<Payments, 'isUnderWay' | 'withhold'>
  readonly purchases: Pick<Purchases, 'find' | 'refundOf'>
  readonly sessions: Pick<Sessions, 'find'>
  readonly chains: Pick<Chains, 'assets' | 'settlers'> & {
    /** Who knows about payments of a scheme; undefined for one that can't be asked about now. */
    settler(network: NetworkId, scheme: string): Looks | undefined
  }
  readonly refundProofs: RefundProofs
  readonly notes: Pick<PurchaseNotes, 'tokenHash'>
  /** This process's own: what is taken up becomes its work. */
  readonly lease: { readonly current: Lease }
  readonly clock: Clock
  readonly log: Log
}

/** What stays open is looked at so rarely at most, in ms, while it may land or its end has just come… */
const LONGEST_OPEN_PAUSE_MS = 8_000
/** …and so much more rarely for each one that is open: a thousand must not be a thousand questions at once. */
const OPEN_ROW_MS = 50
/** …nor may what a settler expects soon wait longer than this for the others, in ms: a block hash lasts a minute. */
const LONGEST_CROWDED_MS = 15_000
/** So long after a payment's time is over the chain knows what became of it, in ms, if its node answers. */
const SETTLED_BY_MS = 120_000
/** What has been concluded and can't be confirmed is looked at ever rarer, up to this, in ms: nothing waits for it. */
const LONGEST_CONFIRM_PAUSE_MS = 600_000
/** A row whose call still runs is looked at again after so long. */
const UNDER_WAY_MS = 2_000
/** What is charged and not answered is looked at again after so long, until it is. */
const UNANSWERED_MS = 30_000
/** After the look at 30 s one more, at five minutes: reorganisations are not deeper. */
const SECOND_LOOK_MS = 270_000
/** Before a second look has to agree that a transfer is gone. */
const SUSPECTED_MS = 5_000
/** Looks, of which none could say anything, until what was concluded is let be: a day of them. */
const MOST_CONFIRM_TRIES = 150

/** Kept as the reason of a put-off; they say which look is next. Each sale has the first for minutes: a longer text splits its page. */
const seenOnce = 'seen once'
const notOnChain = 'not on chain at the last look; a second one has to agree'

/** What recovery does with rows that are due, a page at a time: each row is changed, or put off with its reason. */
export interface RecoveryPage {
  /** Claims that nobody works on any more: nothing was broadcast, and the buyer may use the payment again. */
  free(records: readonly PaymentRecord[]): Promise<number>
  /** Payments whose outcome is open. @returns how many moved */
  resolve(records: readonly PaymentRecord[]): Promise<number>
  /** Payments whose outcome is known, looked at once more. @returns how many moved */
  confirm(records: readonly PaymentRecord[]): Promise<number>
  /** Payments on networks that can't be asked. */
  putOffStrays(records: readonly PaymentRecord[]): Promise<number>
  /** Charged long ago, and nobody came for the answer. @returns how many moved */
  owe(records: readonly PaymentRecord[]): Promise<number>
}

export function createRecoveryPage(parts: RecoveryParts): RecoveryPage {
  const { books, payments, purchases, sessions, chains, notes, lease, clock, log } = parts
  const refunds = createRefundWatch(parts)

  /** Leaves out the rows whose calls still run in this process: those write for themselves, whatever a clock says. */
  function withoutUnderWay(records: readonly PaymentRecord[], decisions: Decisions): PaymentRecord[] {
    return records.filter((record) => {
      if (!payments.isUnderWay(record.row)) return true
      decisions.lookAgain(record, UNDER_WAY_MS)
      return false
    })
  }

  /** Rows that nobody works on become this process's, so that a call that was taken for dead can't write any more. */
  async function takeUp(records: readonly PaymentRecord[]): Promise<PaymentRecord[]> {
    const settling = records.filter(({ state }) => state === 'settling')
    if (settling.length === 0) return [...records]
    const { id } = lease.current
    const done = await books.applyAll(settling.map((record) => rules.takeUp(record, id)))
    const taken = new Set(settling.filter((_, i) => done[i] === true))
    return records.flatMap((record): PaymentRecord[] => {
      if (record.state !== 'settling') return [record]
      return taken.has(record)
        ? [{ ...record, state: 'pending', lease: id, errorReason: 'settlement_pending', tries: 0 }]
        : []
    })
  }

  const recover = (settler: Looks, records: readonly PaymentRecord[]) =>
    recoverShared(books, settler, records)

  /** Asks one settler about many of its payments at a time. */
  async function askEach<T>(
    records: readonly PaymentRecord[],
    decisions: Decisions,
    ask: (settler: Looks, records: readonly PaymentRecord[]) => Promise<readonly T[]>,
    decide: (record: PaymentRecord, answer: T, settler: Looks) => void,
  ): Promise<void> {
    const bySettler = Map.groupBy(records, ({ network, scheme }) => chains.settler(network, scheme))
    for (const [settler, own] of bySettler) {
      if (settler === undefined) for (const record of own) putOffStray(record, decisions)
      else {
        const answers = await ask(settler, own).catch((error: unknown) => error as Error)
        for (const [i, record] of own.entries()) {
          decisions.about(record, () => {
            if (answers instanceof Error) throw answers
            decide(record, answers[i]!, settler)
          })
        }
      }
    }
  }

  function putOffStray(record: PaymentRecord, decisions: Decisions): void {
    const { network, scheme } = record
    decisions.putOff(record, `${network} (${scheme}) is not configured, or its facilitator does not answer`)
  }

  function saleOf(record: PaymentRecord, { transaction, event, block, chargedAtomic }: Settled) {
    return {
      payment: record,
      landed: { transaction, event, block, chargedAtomic },
      asset: assetOf(chains.assets, record),
      reviewTokenHash: notes.tokenHash(record.purchaseId),
      atMs: clock.now(),
    }
  }

  /** Rows whose sessions can't be confirmed by them any more, should they land. */
  async function tooLate(records: readonly PaymentRecord[]): Promise<ReadonlySet<number>> {
    const nowMs = clock.now()
    const rows = await Promise.all(
      records.map(async ({ row, sessionId }) => {
        if (sessionId === null) return []
        const session = await sessions.find(sessionId)
        return session !== undefined && mayConfirm(session, row, nowMs) ? [] : [row]
      }),
    )
    return new Set(rows.flat())
  }

  function land(
    record: PaymentRecord,
    outcome: Settled,
    decisions: Decisions,
    late: ReadonlySet<number>,
    whenBooked: () => void,
  ): void {
    const change = rules.land(record, saleOf(record, outcome), late.has(record.row))
    decisions.change(record, change, whenBooked)
    const { purchaseId, state } = record
    const { transaction } = outcome
    log.info({ purchaseId, transaction, from: state, to: change.to }, 'an open payment was found on chain')
  }

  /**
   * How rarely an open payment is looked at, at most. What can land, or is over by its own time just now, is known within
   * seconds; where many are open at once, a look at all of them costs as much as a look at few does more often.
   */
  const longestPauseMs = ({ validBeforeMs }: PaymentRecord, open: number): number =>
    clock.now() < validBeforeMs + SETTLED_BY_MS
      ? Math.max(LONGEST_OPEN_PAUSE_MS, open * OPEN_ROW_MS)
      : LONGEST_PAUSE_MS

  function decideOpen(
    record: PaymentRecord,
    outcome: SettleOutcome,
    decisions: Decisions,
    open: number,
    late: ReadonlySet<number>,
    whenBooked: () => void,
  ): void {
    switch (outcome.status) {
      case 'settled':
        return land(record, outcome, decisions, late, whenBooked)
      case 'failed_final': {
        const { purchaseId } = record
        log.info({ purchaseId, reason: outcome.reason }, 'a payment can never land; nothing was charged')
        return decisions.change(record, rules.giveUp(record, outcome.reason), whenBooked)
      }
      case 'pending': {
        const { reason, message, lookAgainMs } = outcome
        // The buyer hears why; a reorganised payment keeps what was known of its answer.
        if (record.state === 'pending' && message !== undefined && reason !== record.errorReason)
          return decisions.change(record, rules.stayPending(record, reason, lookAgainMs), whenBooked)
        const crowdedMs = Math.min(open * OPEN_ROW_MS, LONGEST_CROWDED_MS)
        const afterMs =
          lookAgainMs === undefined
            ? pauseMs(record.tries, longestPauseMs(record, open))
            : Math.max(lookAgainMs, record.tries === 0 ? 0 : crowdedMs)
        return decisions.putOff(record, message, afterMs)
      }
      case 'rejected': {
        // Nobody who has the bytes sends them: that is in the books since an earlier look.
        if (record.errorReason !== neverSent) return decisions.putOff(record, outcome.message)
        const { purchaseId } = record
        log.info({ purchaseId }, 'a payment that was never sent is free again; nothing was charged')
        return decisions.change(record, rules.freeUnsent(record))
      }
    }
  }

  /** What says nothing is asked again, rarer and rarer, for a day. */
  function confirmLater(record: PaymentRecord, decisions: Decisions): void {
    const { tries } = record
    if (tries >= MOST_CONFIRM_TRIES) decisions.lookAgain(record, null)
    else decisions.putOff(record, undefined, pauseMs(tries, LONGEST_CONFIRM_PAUSE_MS))
  }

  function confirmed(record: PaymentRecord, decisions: Decisions): void {
    // It may have been taken over since the row was read, and is not to be forgotten.
    if (record.state === 'settled' && !record.hasAnswer) decisions.lookAgain(record, UNANSWERED_MS)
    else if (record.dueReason === seenOnce) decisions.lookAgain(record, null)
    else decisions.lookAgain(record, SECOND_LOOK_MS, seenOnce)
  }

  async function confirmCharged(
    records: readonly PaymentRecord[],
    decisions: Decisions,
    refundUnknown: ReadonlySet<PaymentRecord>,
  ): Promise<void> {
    const gone: PaymentRecord[] = []
    await askEach(
      records,
      decisions,
      (settler, own) => settler.stillOnChain(own),
      (record, answer) => {
        if (answer !== 'no' && refundUnknown.has(record)) refunds.later(record, decisions)
        else if (answer === 'yes') confirmed(record, decisions)
        else if (answer === 'unknown') confirmLater(record, decisions)
        else if (record.dueReason !== notOnChain) decisions.lookAgain(record, SUSPECTED_MS, notOnChain)
        else gone.push(record)
      },
    )
    for (const record of gone) {
      const { purchaseId, transaction } = record
      const purchase = await purchases.find(purchaseId)
      if (record.state === 'refunded') {
        log.warn(
          { purchaseId, transaction },
          'a payment that was paid back is not on chain where it was booked',
        )
        decisions.about(record, () => decisions.change(record, rules.loosen(record, purchase)))
        continue
      }
      log.error({ purchaseId, transaction }, 'a settled payment left the chain')
      // The sale is taken out of the books; it is booked anew when the transfer comes back.
      decisions.about(record, () => decisions.change(record, rules.leaveChain(record, purchase)))
    }
  }

  /** Charged first, and the process ended before the seller had answered: nobody will answer that call any more. */
  const isAbandoned = ({ state, hasAnswer, lease: of, dueReason }: PaymentRecord): boolean =>
    state === 'settled' && !hasAnswer && (of === lease.current.id || dueReason === takenOver)

  /**
   * What is charged and that nobody will answer is owed back. Its buyer may come back for one that its call has left meanwhile, in the same
   * state and under the same lease: then its seller is asked, and it is not owed.
   */
  async function oweBack(records: readonly PaymentRecord[]): Promise<number> {
    const decisions = new Decisions(books, log)
    const withheld: (() => void)[] = []
    for (const record of records) {
      const letGo = payments.withhold(record.row)
      if (letGo === undefined) continue
      withheld.push(letGo)
      decisions.about(record, () => decisions.change(record, rules.expire(record)))
    }
    try {
      return await decisions.write()
    } finally {
      for (const letGo of withheld) letGo()
    }
  }

  return {
    async free(records) {
      const decisions = new Decisions(books, log)
      for (const record of withoutUnderWay(records, decisions))
        decisions.about(record, () => decisions.change(record, rules.free(record, 'abandoned')))
      return decisions.write()
    },

    async resolve(records) {
      const decisions = new Decisions(books, log)
      const taken = await takeUp(withoutUnderWay(records, decisions))
      const late = await tooLate(taken)
      await askEach(taken, decisions, recover, (record, outcome, settler) =>
        decideOpen(record, outcome, decisions, taken.length, late, () => settler.booked?.(record, outcome)),
      )
      return decisions.write()
    },

    async confirm(records) {
      const decisions = new Decisions(books, log)
      const charged: PaymentRecord[] = []
      const abandoned: PaymentRecord[] = []
      const failed: PaymentRecord[] = []
      const refunded = records.filter(({ state }) => state === 'refunded')
      const others = withoutUnderWay(records, decisions).filter(({ state }) => state !== 'refunded')
      const looked = await refunds.lookUp(refunded, decisions)
      for (const record of [...others, ...looked.others]) {
        if (record.state === 'failed_final') failed.push(record)
        else if (isAbandoned(record)) abandoned.push(record)
        // A facilitator's word is all there is, and nothing to look up.
        else if (record.event?.startsWith('nonce:')) {
          if (looked.unknown.has(record)) refunds.later(record, decisions)
          else decisions.lookAgain(record, null)
        } else charged.push(record)
      }
      // Before the chain is asked, which may take long.
      const owed = await oweBack(abandoned)
      await confirmCharged(charged, decisions, looked.unknown)
      const late = await tooLate(failed)
      await askEach(failed, decisions, recover, (record, outcome, settler) => {
        const whenBooked = () => settler.booked?.(record, outcome)
        if (outcome.status === 'settled') land(record, outcome, decisions, late, whenBooked)
        else if (outcome.status === 'pending') confirmLater(record, decisions)
        else confirmed(record, decisions)
      })
      return owed + (await decisions.write())
    },

    async putOffStrays(records) {
      const decisions = new Decisions(books, log)
      for (const record of records) {
        if (chains.settler(record.network, record.scheme) === undefined) putOffStray(record, decisions)
      }
      return decisions.write()
    },

    owe: oweBack,
  }
}
