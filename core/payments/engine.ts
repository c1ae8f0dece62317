import {
  type PaymentRecord,
  refundableStates,
  type SettlementAttempt,
  type StoredAnswer,
} from '../domain/payment.ts'
import { canonicalTransaction } from '../domain/transactionId.ts'
import { isTollgateError, TollgateError } from '../errors/error.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { SettleOutcome, Settler } from '../ports/chains/settler.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/log.ts'
import { isStoreAway } from '../ports/refusals.ts'
import type { Books } from '../ports/store/books.ts'
import { createBackground } from './background.ts'
import { createChangeWatch } from './changeWatch.ts'
import type { HeldLease } from './heldLease.ts'
import { createOpenCalls, OpenCall } from './openCalls.ts'
import type { Fate, PaidCall, Payments, PresentedPayment, SettleEnd } from './payments.ts'
import { assetOf, type Landed, newPurchaseId, type PurchaseNotes } from './purchase.ts'
import { movedMeanwhile, sessionNotOpen, stillPending } from './refusals.ts'
import * as rules from './rules.ts'

export interface EngineParts {
  readonly books: Books
  readonly chains: Pick<Chains, 'assets'>
  readonly notes: Pick<PurchaseNotes, 'tokenHash'>
  /** This process's own, as it is now. */
  readonly lease: Pick<HeldLease, 'current' | 'isHeld' | 'lapses'>
  readonly clock: Clock
  readonly log: Log
  /** Told how each settlement ended and how long it took, in milliseconds. Absent: nothing is counted. */
  readonly onSettled?: (network: string, outcome: SettleOutcome['status'], ms: number) => void
}

/** The life of one call, verb by verb; what is written beside it is in background.ts. */
export function createPayments(parts: EngineParts): Payments {
  const { books, chains, notes, lease, clock, log, onSettled } = parts
  const watch = createChangeWatch(books)
  const calls = createOpenCalls(books, watch, log)
  /** Rows that no call may take up now. */
  const withheld = new Set<number>()
  const background = createBackground({ books, calls, watch, lease, log })

  /**
   * Another process took this call for abandoned. Its claim was freed then; whether the payment is unused still, or has been
   * claimed and charged anew meanwhile, the row says.
   */
  async function whyNotOurs(paid: OpenCall): Promise<TollgateError> {
    const { payment, purchaseId } = paid
    const record = await books.find(payment.identity.key)
    if (paid.sessionId !== null && isOurs(paid, record)) {
      // Nobody has moved the payment: it is the session that refused it.
      Object.assign(paid, { isSure: true, isLost: false })
      return sessionNotOpen()
    }
    if (record === undefined || record.state === 'rejected' || record.state === 'failed_final')
      return notBegun()
    // What this call has stored without hearing so is further than claimed, and sent by whoever takes it up.
    return record.purchaseId === purchaseId && record.state === 'claimed' ? notBegun() : stillPending(record)
  }

  /**
   * That nothing was charged can't be said of what another process has taken up while this one stood still. Whether it did, its own clock
   * does not say for certain: leases are over by the store's, and a machine that is suspended stops its clocks.
   */
  async function assertRow(paid: OpenCall): Promise<void> {
    const { purchaseId, landed } = paid
    const record = await books.find(paid.payment.identity.key)
    if (isOurs(paid, record)) return
    paid.isSure = false
    paid.isLost = true
    if (landed === null) throw await whyNotOurs(paid)
    throw movedMeanwhile(record, purchaseId, landed.transaction ?? '')
  }

  /** Asks the store only where this process stood still for so long that another one may have taken its rows up. */
  function assertHeld(paid: OpenCall): void | Promise<void> {
    if (paid.lease === lease.current.id && paid.lapses === lease.lapses && lease.isHeld) return
    return assertRow(paid)
  }

  /** What becomes of the row of a call that is over. */
  async function conclude(
    paid: OpenCall,
    fate: Fate,
    answer: StoredAnswer | undefined,
    reason: string | undefined,
  ): Promise<void> {
    // Each turn that fails is behind somebody else's move: there are few of them.
    for (let turn = 0; turn < 4; turn++) {
      // What was stored too late for its settler may be there in a moment, and is this call's to free.
      await paid.written?.catch(() => undefined)
      if (!paid.isSure && !(await calls.lookAgain(paid))) {
        // Another process has taken up what this one has answered: the database was away for longer than a lease lasts.
        if (fate === 'delivered' && paid.landed !== null)
          background.noteHandedOut(paid, paid.payment.identity.key)
        return
      }
      if (paid.state === 'settling' && paid.landed !== null) {
        if (!(await book(paid, paid.landed))) continue
      }
      const change = rules.conclude(paid, fate, answer, paid.refusedFor ?? reason)
      if (change === undefined || (await calls.write(paid, change))) return
      if (change.to === 'delivered' && (await books.apply(rules.deliverReorged(paid)))) return
    }
  }

  function end(paid: OpenCall, fate: Fate, answer?: StoredAnswer, reason?: string): void {
    paid.isOver = true
    paid.hasLeftAnswer = fate === 'delivered' || fate === 'not_collected' || fate === 'unsent'
    paid.hold?.release()
    const ended = background.insist(paid.purchaseId, () => conclude(paid, fate, answer, reason))
    void ended.then(() => {
      // Before this process's own recovery may look at it.
      if (paid.isLost) overtaken(paid)
      calls.remove(paid)
    })
  }

  /** Somebody else has the row, and counts what its settlement has cost. */
  function overtaken(paid: OpenCall): void {
    const { unwritten, payment } = paid
    paid.unwritten = null
    if (unwritten !== null) payment.settler?.overtaken?.(payment.identity, unwritten)
  }

  /** Writes what the settler has said of a payment. @returns whether it stands in the row now */
  async function noteOutcome(paid: OpenCall, writing: Promise<boolean>): Promise<boolean> {
    const isDone = await writing
    if (isDone) paid.unwritten = null
    return isDone
  }

  /** @returns false when somebody else has moved the row */
  async function book(paid: OpenCall, landed: Landed): Promise<boolean> {
    const { payment, call, purchaseId } = paid
    const { identity } = payment
    const sale = {
      payment: { ...identity, ...call, purchaseId },
      landed,
      asset: assetOf(chains.assets, identity),
      reviewTokenHash: notes.tokenHash(purchaseId),
      atMs: clock.now(),
    }
    try {
      const change = rules.sell(paid, sale, paid.attempt, call.settlesFirst)
      return await noteOutcome(paid, calls.write(paid, change))
    } catch (error) {
      // Such as an event that is another payment's: no further try would help, and the recovery says so to the operator.
      if (!isStoreAway(error)) paid.landed = null
      throw error
    }
  }

  function begun(paid: OpenCall, outcome: SettleOutcome): Promise<SettleEnd> | SettleEnd {
    const sent = paid.attempt?.transaction ?? ''
    paid.unwritten = outcome
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
    await noteOutcome(paid, calls.tryToWrite(paid, rules.pend(paid, reason, lookAgainMs)))
    return { status: 'pending', transaction, reason }
  }

  async function failed(
    paid: OpenCall,
    { transaction, reason }: SettleOutcome & { status: 'failed_final' },
  ): Promise<SettleEnd> {
    await noteOutcome(paid, calls.tryToWrite(paid, rules.giveUp(paid, reason)))
    return { status: 'failed', transaction, reason }
  }

  async function rejected(
    paid: OpenCall,
    { reason, message, transient }: SettleOutcome & { status: 'rejected' },
    sent: string,
  ): Promise<SettleEnd> {
    paid.hasBegun = false
    paid.refusedFor = reason
    if (paid.state === 'settling') {
      // Unless it was taken up meanwhile: then it may be on its way all the same.
      if (!(await calls.tryToWrite(paid, rules.free(paid, reason))))
        return { status: 'pending', transaction: sent, reason: 'settlement_pending' }
    } else await assertRow(paid)
    return { status: 'rejected', reason, message, ...(transient === true && { transient }) }
  }

  return {
    async claim(presented, call) {
      const { identity, payload } = presented
      const { scheme } = settlerOf(presented)
      const { linkId, sessionId, storeId, requestHash } = call
      // As it is before the claim: this process may stand still until it hears of it.
      const held = { current: lease.current, lapses: lease.lapses }
      const purchaseId = newPurchaseId(clock.now())
      const result = await books
        .claim({
          ...identity,
          ...{ scheme, lease: held.current.id, linkId, sessionId, storeId, requestHash, purchaseId },
          payload: JSON.stringify(payload),
        })
        .catch((error: unknown) => {
          background.freeUnanswered(identity.key, purchaseId)
          throw error
        })
      if (!result.won) {
        background.hasten(result.record)
        return { lost: result.record }
      }
      const paid = new OpenCall(presented, call, result.row, purchaseId, held, 'claimed')
      calls.add(paid)
      return { won: paid }
    },

    async verify(handle) {
      const paid = underWay(handle)
      const { payload, terms, identity } = paid.payment
      const settler = settlerOf(paid.payment)
      const verified = await settler.verify(payload, terms, identity, { storeId: paid.call.storeId })
      if (!verified.ok) {
        paid.refusedFor = verified.reason
        await assertRow(paid)
        return verified
      }
      if (paid.isOver) {
        verified.hold.release()
        throw isEnded()
      }
      paid.hold?.release()
      paid.hold = verified.hold
      return { ok: true }
    },

    assertHeld: (handle) => assertHeld(underWay(handle)),

    async settle(handle, answer, amountAtomic) {
      const paid = underWay(handle)
      const { payload, terms, identity } = paid.payment
      const settler = settlerOf(paid.payment)
      if (amountAtomic !== undefined && (amountAtomic < 0n || amountAtomic > identity.amountAtomic))
        throw new Error(
          `Expected to charge at most the ${identity.amountAtomic} that was authorised, got ${amountAtomic}.`,
        )
      let notStored: unknown
      const store = async (attempt: SettlementAttempt): Promise<boolean> => {
        // Ended while it waited for its turn: what has been freed is not sent.
        if (paid.isOver) throw (notStored = isEnded())
        // What was stored before may be on its way, or have been: only the settler knows.
        const hadBegun = paid.hasBegun
        const change =
          paid.attempt === null ? rules.begin(paid, attempt, answer) : rules.beginAnew(paid, attempt)
        // Already while it is written: whoever ends the call now must not say that nothing was charged.
        paid.hasBegun = true
        try {
          if (!(await calls.write(paid, change))) {
            paid.hasBegun = hadBegun
            notStored = await whyNotOurs(paid)
            return false
          }
        } catch (error) {
          paid.hasBegun = hadBegun
          // Another process has signed with that number: this one has to learn its numbers anew, and charges nothing.
          notStored = isTollgateError(error) && error.code === 'CONFLICT' ? notBegun() : error
          throw error
        }
        paid.attempt = attempt
        if (!paid.isOver || hadBegun) return true
        // Ended while it was written. Freed, before the settler uses its number for another one: what stands in the books is sent
        // by whoever finds it there, so that what can't be freed is sent now.
        if (!(await calls.tryToWrite(paid, rules.free(paid, 'call_timeout')))) return true
        paid.hasBegun = false
        throw (notStored = isEnded())
      }
      let storing: Promise<unknown> = Promise.resolve()
      const storeInTime = (attempt: SettlementAttempt): Promise<boolean> => {
        const stored = store(attempt)
        storing = stored.catch(() => undefined)
        return stored
      }
      const charged = amountAtomic === undefined ? terms : { ...terms, amount: amountAtomic.toString() }
      let outcome: SettleOutcome
      let ended: SettleOutcome['status'] = 'rejected'
      const sinceMs = performance.now()
      try {
        outcome = await settler.settle(payload, charged, identity, storeInTime, paid.hold ?? undefined)
        ended = outcome.status
      } catch (err) {
        if (!paid.hasBegun) throw notStored ?? err
        // Signed bytes may be on their way: whatever broke here, the recovery finds out what became of them.
        log.error(
          { err, purchaseId: paid.purchaseId },
          'the settler broke after the payment was stored; its outcome is open',
        )
        outcome = { status: 'pending', transaction: '', reason: 'settlement_pending' }
        ended = 'pending'
      } finally {
        onSettled?.(identity.network, ended, performance.now() - sinceMs)
      }
      // A settler waits for a store for so long only. What is stored later is sent by whoever takes this process for dead:
      // that nothing was charged is said once it can't be.
      if (outcome.status === 'rejected') await storing
      // Why nothing was sent is known better here than in the settler.
      if (outcome.status === 'rejected' && notStored !== undefined) {
        if (paid.state === 'settling') {
          const end = await rejected(paid, outcome, paid.attempt?.transaction ?? '')
          if (end.status === 'pending') return end
        }
        throw notStored
      }
      return begun(paid, outcome)
    },

    async record(handle) {
      const paid = underWay(handle)
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
      if (paid.isLost) overtaken(paid)
      Object.assign(paid, { state: record.state, hasAnswer: record.hasAnswer, lease: null, isSure: true })
      paid.isLost = false
    },

    deliver(handle, fate, answer, reason) {
      if (handle instanceof OpenCall && !handle.isOver) return end(handle, fate, answer, reason)
      // What was freed or is owed has no answer that somebody could have been handed.
      const hasAnswer = !(handle instanceof OpenCall) || handle.hasLeftAnswer
      if (fate === 'delivered' && hasAnswer) background.noteHandedOut(handle)
    },

    async resume(record, presented, call) {
      // One at a time in this process: they would have the same lease, and the end of one would be the end of the other.
      if (!rules.mayResume(record) || calls.has(record.row) || withheld.has(record.row)) return undefined
      const { row, purchaseId, transaction, event, block, chargedAtomic, amountAtomic } = record
      const held = { current: lease.current, lapses: lease.lapses }
      const paid = new OpenCall(presented, call, row, purchaseId, held, 'settled')
      paid.landed = { transaction, event, block, chargedAtomic: chargedAtomic ?? amountAtomic }
      calls.add(paid)
      try {
        if (await calls.write(paid, rules.resume(record, held.current.id))) return paid
      } catch (error) {
        // It may be written all the same: then it is owed again, until its buyer comes back once more.
        end(paid, 'not_charged')
        throw error
      }
      calls.remove(paid)
      return undefined
    },

    async find(key) {
      const record = await books.find(key)
      if (record !== undefined) background.hasten(record)
      return record
    },
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

    isUnderWay: calls.has,
    withhold(row) {
      if (calls.has(row) || withheld.has(row)) return undefined
      withheld.add(row)
      return () => void withheld.delete(row)
    },
    leaveStrays: background.leaveStrays,
  }
}

/** Whether a row is where its call has left it. */
const isOurs = ({ purchaseId, state, lease }: OpenCall, record: PaymentRecord | undefined): boolean =>
  record?.purchaseId === purchaseId && record.state === state && record.lease === lease

function underWay(handle: PaidCall): OpenCall {
  const paid = handle as OpenCall
  if (paid.isOver) throw isEnded()
  return paid
}

/** For whoever holds on to a call: its buyer has had another answer by then. */
const isEnded = () => new Error('Expected a call that is under way, got one that has ended.')

function settlerOf({ settler, identity }: PresentedPayment): Settler {
  if (settler !== null) return settler
  throw new Error(`Expected a payment that a settler has checked, got one on ${identity.network}.`)
}

/** The row is not where this call left it, and nothing was sent for it. */
const notBegun = () =>
  new TollgateError(
    'settlement_unavailable',
    'The settlement could not begin. Try again with the same payment; nothing was charged.',
    { retryAfterSeconds: 5 },
  )
