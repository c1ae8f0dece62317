import {
  type PaymentRecord,
  type PaymentState,
  refundableStates,
  type SettlementAttempt,
  type StoredAnswer,
} from '../domain/payment.ts'
import type { Purchase } from '../domain/purchase.ts'
import { canonicalTransaction } from '../domain/transactionId.ts'
import { isTollgateError, TollgateError } from '../errors/error.ts'
import type { Books, PaymentChange, TransferBackFound } from '../ports/books.ts'
import type { Chains } from '../ports/chains.ts'
import type { Clock } from '../ports/clock.ts'
import type { Lease } from '../ports/leases.ts'
import type { Log } from '../ports/log.ts'
import type { Refusal, SettleOutcome } from '../ports/settler.ts'
import { createChangeWatch } from './changeWatch.ts'
import { OpenCall, type PaidCall, type PaidFor, type PresentedPayment } from './paidCall.ts'
import { assetOf, type Landed, newPurchaseId, type PurchaseNotes } from './purchase.ts'
import { movedMeanwhile, stillPending } from './refusals.ts'
import * as rules from './rules.ts'

/** How a settlement ended for the call that asked for it. */
export type SettleEnd =
  /** The money is on chain, and {@link Payments.record} has to say so. */
  | { readonly status: 'settled'; readonly transaction: string | null; readonly chargedAtomic: bigint }
  /** It was sent, or may have been; `transaction` is empty while none is known. */
  | { readonly status: 'pending'; readonly transaction: string; readonly reason: string }
  /** It can never land. */
  | { readonly status: 'failed'; readonly transaction: string; readonly reason: string }
  /** Nothing was sent: the payment is as good as before. */
  | {
      readonly status: 'rejected'
      readonly reason: string
      readonly message: string
      readonly transient?: boolean
    }

export type RefundResult =
  /** It is booked, now or before. */
  | 'refunded'
  /** Another transaction has paid this purchase back. */
  | 'refunded_otherwise'
  /** The transaction pays for a purchase, or has paid another one back. */
  | 'transaction_used'
  /** It is not charged: nothing can be paid back. */
  | 'not_refundable'

/**
 * The payment engine: whatever is done with a payment is one of these verbs, and every change of the books that they make
 * is one of rules.ts. Each rejects with `store_unavailable` when the store can not say; the caller then refuses the
 * request, because serving a paid call twice is worse than asking the buyer to try again.
 */
export interface Payments {
  /** One insert against the unique key: the first caller wins, everyone after gets the row as it stands. */
  claim(
    presented: PresentedPayment,
    call: PaidFor,
  ): Promise<{ readonly won: PaidCall } | { readonly lost: PaymentRecord }>
  /**
   * Asks whether the payment could be settled now, before the seller works; whatever could refuse it is asked. Its place
   * among the payments on their way is held until the call has ended.
   */
  verify(paid: PaidCall): Promise<{ readonly ok: true } | Refusal>
  /**
   * Stores what was signed and the seller's answer, broadcasts, and waits for the outcome.
   *
   * @param answer what a repeated call gets; null where the seller works only now
   * @param amountAtomic what is charged, where it is less than was authorised
   * @throws `settlement_unavailable`, `store_unavailable`: it could not begin, and nothing was sent
   */
  settle(paid: PaidCall, answer: StoredAnswer | null, amountAtomic?: bigint): Promise<SettleEnd>
  /**
   * Writes that it is settled, with the purchase and its ledger entries, in one commit.
   *
   * @throws what the buyer hears: `settlement_pending` while it can't be said, `payment_already_used` when it is owed back
   *   or paid back meanwhile
   */
  record(paid: PaidCall): Promise<void>
  /**
   * Ends a call: after its answer was handed over or could not be. What becomes of the row is a rule; it is written in the
   * background, and insisted on while the store is away. For a payment whose kept answer somebody else handed out, it
   * notes that.
   *
   * @param answer to keep for a repeated call, where the link charges first
   * @param reason why the call failed
   */
  deliver(paid: PaidCall, fate: rules.Fate, answer?: StoredAnswer, reason?: string): void
  /**
   * Takes up a payment that landed when nobody waited any more: its buyer is back.
   * @returns undefined when it is owed for another reason, or somebody else was faster
   */
  resume(record: PaymentRecord, presented: PresentedPayment, call: PaidFor): Promise<PaidCall | undefined>
  find(key: string): Promise<PaymentRecord | undefined>
  answerOf(record: PaymentRecord): Promise<StoredAnswer | undefined>
  /**
   * Waits until a payment stands otherwise than it was seen. Told at once of what this process does; what others do is
   * found by reading now and then, and those who wait for the same payment share that.
   * @returns undefined when the time is over
   */
  changed(seen: PaymentRecord, waitMs: number): Promise<PaymentRecord | undefined>
  /** Books a transfer back that was proved on chain. One transaction refunds one purchase, for good. */
  refund(payment: PaymentRecord, purchase: Purchase, proof: TransferBackFound): Promise<RefundResult>
  /** Whether a call of this process works on the row. */
  isUnderWay(row: number): boolean
  /**
   * Leaves rows of this process's, that no call of it works on, to the recovery: claims that landed after their call had
   * heard that the store is away. To be asked now and then, with time between for a claim to come back in.
   * @returns how many
   */
  leaveStrays(): Promise<number>
}

export interface EngineParts {
  readonly books: Books
  readonly chains: Pick<Chains, 'assets'>
  readonly notes: Pick<PurchaseNotes, 'tokenHash'>
  /** This process's own, as it is now. */
  readonly lease: { readonly current: Lease }
  readonly clock: Clock
  readonly log: Log
}

/** Pauses before each further try of a write that nobody waits for; while the store is away the last one goes on. */
const PAUSES_MS = [200, 1_000, 5_000, 15_000, 30_000, 60_000]
/** Claims in doubt that are looked for however long the store is away: anybody can make one, so they are bounded. */
const MOST_DOUBTS = 1_000
/** What a call works on; a pending payment is the recovery's. */
const ofCalls: readonly PaymentState[] = ['claimed', 'settling', 'settled']
/** Rows that are looked at together for such that no call works on. */
const STRAYS = 1_000

export function createPayments({ books, chains, notes, lease, clock, log }: EngineParts): Payments {
  const underWay = new Map<number, OpenCall>()
  /** Answers that were handed out, and are not noted yet. */
  const handedOut = new Set<number>()
  /** Claims of this process's that no call worked on at the last look. */
  let suspects = new Set<string>()
  const watch = createChangeWatch(books)
  let doubts = 0

  /** Writes a change of a call's own row, and keeps what is known of it. @returns false when somebody else has moved it */
  async function write(paid: OpenCall, change: PaymentChange): Promise<boolean> {
    let isDone: boolean
    try {
      isDone = await books.apply(change)
    } catch (error) {
      paid.isSure = false
      throw error
    }
    if (isDone) {
      paid.state = change.to
      if (change.takenBy !== undefined) paid.lease = change.takenBy
      if (change.answer !== undefined) paid.hasAnswer = change.answer !== null
      watch.tell(paid.row)
    } else {
      // After a write whose answer did not come, the one that moved it may have been this call.
      if (paid.isSure) paid.isLost = true
      paid.isSure = false
    }
    return isDone
  }

  /** The same for what nobody has to hear of: what is not written here is found when the call ends. */
  async function tryToWrite(paid: OpenCall, change: PaymentChange): Promise<boolean> {
    try {
      return await write(paid, change)
    } catch (err) {
      log.warn({ err, purchaseId: paid.purchaseId }, `could not note a ${change.to} payment yet`)
      return false
    }
  }

  /**
   * Does what has to be done in the end, and again while the store is away, however long that is: this call knows best what
   * became of its row, and recovery gets it only as a stray. It has to be harmless when done twice.
   */
  function insist(
    purchaseId: string,
    work: () => Promise<void>,
    done: () => void = () => {},
    isEndless = true,
  ): void {
    const attempt = (tries: number): void => {
      work().then(done, (err: unknown) => {
        const waitMs = PAUSES_MS[tries] ?? (isEndless && isAway(err) ? PAUSES_MS.at(-1) : undefined)
        if (waitMs !== undefined) return void setTimeout(attempt, waitMs, tries + 1).unref()
        log.warn({ err, purchaseId }, 'could not note what became of a payment')
        done()
      })
    }
    attempt(0)
  }

  /** A claim whose answer did not come may be there, now or a little later, and nobody would work on it. */
  function freeUnanswered(key: string, purchaseId: string): void {
    const free = async (): Promise<void> => {
      const record = await books.find(key)
      if (record === undefined) throw new Error('The claim is not there, or not yet.')
      if (record.purchaseId !== purchaseId || record.state !== 'claimed') return
      if (await books.apply(rules.free(record, 'store_unavailable'))) watch.tell(record.row)
    }
    doubts++
    insist(purchaseId, free, () => void doubts--, doubts <= MOST_DOUBTS)
  }

  /** Finds out how a row stands that a write has left in doubt. @returns false when it is not this call's any more */
  async function lookAgain(paid: OpenCall): Promise<boolean> {
    if (paid.isLost) return false
    const record = await books.find(paid.payment.identity.key)
    if (record === undefined || record.purchaseId !== paid.purchaseId) return false
    if (record.lease !== null && record.lease !== paid.lease) return false
    // Another call of this process may have taken it up, when it was owed meanwhile and its buyer came back.
    const working = underWay.get(paid.row)
    if (working !== undefined && working !== paid) return false
    paid.state = record.state
    paid.hasAnswer = record.hasAnswer
    paid.isSure = true
    return true
  }

  /**
   * Another process took this call for abandoned. Its claim was freed then; whether the payment is unused still, or has been
   * claimed and charged anew meanwhile, the row says.
   */
  async function whyNotOurs({ payment, purchaseId }: OpenCall): Promise<TollgateError> {
    const record = await books.find(payment.identity.key)
    const isFree = record === undefined || record.state === 'rejected' || record.purchaseId === purchaseId
    return isFree || record.state === 'failed_final' ? notBegun() : stillPending(record)
  }

  /** What becomes of the row of a call that is over. */
  async function conclude(
    paid: OpenCall,
    fate: rules.Fate,
    answer: StoredAnswer | undefined,
    reason: string | undefined,
  ): Promise<void> {
    // Each turn that fails is behind somebody else's move: there are few of them.
    for (let turn = 0; turn < 4; turn++) {
      if (!paid.isSure && !(await lookAgain(paid))) return
      if (paid.state === 'settling' && paid.landed !== null) {
        if (!(await book(paid, paid.landed))) continue
      }
      const change = rules.conclude(paid, fate, answer, reason)
      if (change === undefined || (await write(paid, change))) return
    }
  }

  function end(paid: OpenCall, fate: rules.Fate, answer?: StoredAnswer, reason?: string): void {
    paid.isOver = true
    paid.hold?.release()
    insist(
      paid.purchaseId,
      () => conclude(paid, fate, answer, reason),
      () => {
        if (underWay.get(paid.row) === paid) underWay.delete(paid.row)
      },
    )
  }

  /** The answer that its call left behind has reached somebody else who asked for it. */
  function noteHandedOut({ row, purchaseId }: PaidCall): void {
    if (handedOut.has(row)) return
    handedOut.add(row)
    insist(
      purchaseId,
      async () => {
        if (await books.apply(rules.deliver({ row, purchaseId, lease: null }))) watch.tell(row)
      },
      () => handedOut.delete(row),
    )
  }

  /** @returns false when somebody else has moved the row */
  async function book(paid: OpenCall, landed: Landed): Promise<boolean> {
    const { payment, call, purchaseId } = paid
    const { identity } = payment
    const sale = {
      payment: { ...identity, purchaseId, linkId: call.linkId, storeId: call.storeId },
      landed,
      asset: assetOf(chains.assets, identity),
      reviewTokenHash: notes.tokenHash(purchaseId),
      atMs: clock.now(),
    }
    try {
      return await write(paid, rules.sell(paid, sale, paid.attempt, call.settlesFirst))
    } catch (error) {
      // Such as an event that is another payment's: no further try would help, and the recovery says so to the operator.
      if (!isAway(error)) paid.landed = null
      throw error
    }
  }

  function begun(paid: OpenCall, outcome: SettleOutcome): Promise<SettleEnd> | SettleEnd {
    const sent = paid.attempt?.transaction ?? ''
    switch (outcome.status) {
      case 'settled': {
        const { transaction, event, block, chargedAtomic } = outcome
        paid.landed = { transaction, event, block, chargedAtomic }
        if (chargedAtomic > paid.payment.identity.amountAtomic)
          log.error({ purchaseId: paid.purchaseId, transaction }, 'more was charged than was authorised')
        return { status: 'settled', transaction, chargedAtomic }
      }
      case 'pending':
        return pending(paid, outcome, outcome.transaction || sent)
      case 'failed_final':
        return failed(paid, outcome)
      case 'rejected':
        return rejected(paid, outcome, sent)
    }
  }

  async function pending(
    paid: OpenCall,
    { reason, lookAgainMs }: SettleOutcome & { status: 'pending' },
    transaction: string,
  ): Promise<SettleEnd> {
    log.warn({ purchaseId: paid.purchaseId, transaction, reason }, 'settlement pending')
    await tryToWrite(paid, rules.pend(paid, reason, lookAgainMs))
    return { status: 'pending', transaction, reason }
  }

  async function failed(
    paid: OpenCall,
    { transaction, reason }: SettleOutcome & { status: 'failed_final' },
  ): Promise<SettleEnd> {
    await tryToWrite(paid, rules.giveUp(paid, reason))
    return { status: 'failed', transaction, reason }
  }

  async function rejected(
    paid: OpenCall,
    { reason, message, transient }: SettleOutcome & { status: 'rejected' },
    sent: string,
  ): Promise<SettleEnd> {
    if (paid.state === 'settling') {
      paid.hasBegun = false
      // Unless it was taken up meanwhile: then it may be on its way all the same.
      if (!(await tryToWrite(paid, rules.free(paid, reason))))
        return { status: 'pending', transaction: sent, reason: 'settlement_pending' }
    }
    return { status: 'rejected', reason, message, ...(transient === true && { transient }) }
  }

  return {
    async claim(presented, call) {
      const { identity, payload, settler } = presented
      const { linkId, storeId, requestHash } = call
      const leaseId = lease.current.id
      const purchaseId = newPurchaseId(clock.now())
      const result = await books
        .claim({
          ...identity,
          ...{ scheme: settler.scheme, lease: leaseId, linkId, storeId, requestHash, purchaseId },
          payload: JSON.stringify(payload),
        })
        .catch((error: unknown) => {
          freeUnanswered(identity.key, purchaseId)
          throw error
        })
      if (!result.won) return { lost: result.record }
      const paid = new OpenCall(presented, call, result.row, purchaseId, leaseId, 'claimed')
      underWay.set(result.row, paid)
      return { won: paid }
    },

    async verify(handle) {
      const paid = handle as OpenCall
      const { payload, terms, identity, settler } = paid.payment
      const verified = await settler.verify(payload, terms, identity, { storeId: paid.call.storeId })
      if (!verified.ok) return verified
      paid.hold?.release()
      paid.hold = verified.hold
      return { ok: true }
    },

    async settle(handle, answer, amountAtomic) {
      const paid = handle as OpenCall
      const { payload, terms, identity, settler } = paid.payment
      if (amountAtomic !== undefined && (amountAtomic < 0n || amountAtomic > identity.amountAtomic))
        throw new Error(
          `Expected to charge at most the ${identity.amountAtomic} that was authorised, got ${amountAtomic}.`,
        )
      let notStored: unknown
      const store = async (attempt: SettlementAttempt): Promise<boolean> => {
        try {
          if (!(await write(paid, rules.begin(paid, attempt, answer)))) {
            notStored = await whyNotOurs(paid)
            return false
          }
        } catch (error) {
          notStored = error
          throw error
        }
        paid.attempt = attempt
        paid.hasBegun = true
        return true
      }
      const charged = amountAtomic === undefined ? terms : { ...terms, amount: amountAtomic.toString() }
      let outcome: SettleOutcome
      try {
        outcome = await settler.settle(payload, charged, identity, store, paid.hold ?? undefined)
      } catch (err) {
        if (!paid.hasBegun) throw notStored ?? err
        // Signed bytes may be on their way: whatever broke here, the recovery finds out what became of them.
        log.error(
          { err, purchaseId: paid.purchaseId },
          'the settler broke after the payment was stored; its outcome is open',
        )
        outcome = { status: 'pending', transaction: '', reason: 'settlement_pending' }
      }
      // Why nothing was sent is known better here than in the settler.
      if (outcome.status === 'rejected' && notStored !== undefined) throw notStored
      return begun(paid, outcome)
    },

    async record(handle) {
      const paid = handle as OpenCall
      if (paid.landed === null) throw new Error('Expected a payment that is settled, got one that is not.')
      const { purchaseId, landed } = paid
      const transaction = landed.transaction ?? ''
      try {
        if (await book(paid, landed)) return
      } catch (err) {
        log.error({ err, purchaseId }, 'charged, and the purchase could not be written yet')
        throw movedMeanwhile(undefined, purchaseId, transaction)
      }
      const record = await books.find(paid.payment.identity.key).catch(() => undefined)
      // Somebody else has booked the same purchase meanwhile, and this call has the answer to it; not where the seller is
      // asked only now, because somebody may have asked it already.
      const isBooked =
        !paid.call.settlesFirst &&
        record?.purchaseId === purchaseId &&
        (record.state === 'delivered' || (record.state === 'settled' && record.hasAnswer))
      if (!isBooked) throw movedMeanwhile(record, purchaseId, transaction)
      Object.assign(paid, { state: record.state, hasAnswer: record.hasAnswer, lease: null, isSure: true })
      paid.isLost = false
    },

    deliver(handle, fate, answer, reason) {
      if (handle instanceof OpenCall && !handle.isOver) end(handle, fate, answer, reason)
      else if (fate === 'delivered') noteHandedOut(handle)
    },

    async resume(record, presented, call) {
      // One at a time in this process: they would have the same lease, and the end of one would be the end of the other.
      if (!rules.mayResume(record) || underWay.has(record.row)) return undefined
      const { row, purchaseId, transaction, event, block, chargedAtomic, amountAtomic } = record
      const leaseId = lease.current.id
      const paid = new OpenCall(presented, call, row, purchaseId, leaseId, 'settled')
      paid.landed = { transaction, event, block, chargedAtomic: chargedAtomic ?? amountAtomic }
      underWay.set(row, paid)
      try {
        if (await write(paid, rules.resume(record, leaseId))) return paid
      } catch (error) {
        // It may be written all the same: then it is owed again, until its buyer comes back once more.
        end(paid, 'not_charged')
        throw error
      }
      underWay.delete(row)
      return undefined
    },

    find: (key) => books.find(key),
    answerOf: ({ row }) => books.answerOf(row),
    changed: watch.changed,

    async refund(payment, purchase, proof) {
      if (await books.apply(rules.payBack(payment, purchase, proof))) {
        watch.tell(payment.row)
        return 'refunded'
      }
      const known = await books.refundOf(payment.row)
      if (known !== undefined) {
        const transaction = canonicalTransaction(proof.network, proof.transaction)
        return known.transaction === transaction ? 'refunded' : 'refunded_otherwise'
      }
      const now = await books.find(payment.key)
      const mayBe: readonly string[] = refundableStates
      return now !== undefined && mayBe.includes(now.state) ? 'transaction_used' : 'not_refundable'
    },

    isUnderWay: (row) => underWay.has(row),

    async leaveStrays() {
      const own = await books.list({ states: ofCalls, lease: lease.current.id, limit: STRAYS })
      const idle = own.filter(({ row, hasAnswer, state }) => {
        return !underWay.has(row) && (state !== 'settled' || !hasAnswer)
      })
      // A claim that was just won may be in the books before its call is known here; at the next look it is.
      const strays = idle.filter(({ purchaseId }) => suspects.has(purchaseId))
      suspects = new Set(idle.map(({ purchaseId }) => purchaseId))
      if (strays.length === 0) return 0
      const left = await books.applyAll(strays.map((record) => rules.abandon(record)))
      return left.filter((isLeft) => isLeft === true).length
    },
  }
}

/** The store could not say; whatever else breaks a write would break it again. */
const isAway = (error: unknown): boolean => isTollgateError(error) && error.code === 'store_unavailable'

/** The row is not where this call left it, and nothing was sent for it. */
const notBegun = () =>
  new TollgateError(
    'settlement_unavailable',
    'The settlement could not begin. Try again with the same payment; nothing was charged.',
    { retryAfterSeconds: 5 },
  )
