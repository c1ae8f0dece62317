import { bookable, debtorOf, entriesOfRefund } from '../domain/ledger.ts'
import {
  landedLate,
  mayMove,
  neverSent,
  notCollected,
  type PaymentRecord,
  type PaymentState,
  refundableStates,
  refundLeftChain,
  reorgedAfterDelivery,
  type SettlementAttempt,
  type StoredAnswer,
  sessionOver,
} from '../domain/payment.ts'
import type { Purchase, PurchaseStatus } from '../domain/purchase.ts'
import type { Durability, PaymentChange, SessionMove, TransferBackFound } from '../ports/store/books.ts'
import type { Fate } from './payments.ts'
import { purchaseOf, type Sale } from './purchase.ts'

/** Which row is meant, of which claim, and whose it has to be: what every change is conditional on. */
export type Held = Pick<PaymentChange, 'row' | 'purchaseId' | 'lease'> & {
  /** The session that it pays; absent and null alike: a call. */
  readonly sessionId?: string | null
}

/** A row in a state, as a call knows it that works on it, or as it was read. */
export type Standing = Held & { readonly state: PaymentState }

/** A row that was read, as far as the rules look at it. */
export type Read = Standing & Pick<PaymentRecord, 'hasAnswer' | 'errorReason'>

/** A lease that is never given out: whose rows have it are adopted. */
const nobodysLease = 0
/** Nobody has to look at the row: its call does, or nothing is left to do. */
const nobody = null
/** The recovery has to look at the row at once. */
const atOnce = 0
/** The outcome of what was just sent is not asked for sooner. */
const SOON_MS = 2_000
/** What landed is looked up on chain once more after so long, for reorganisations; what was given up, whether it landed. */
const CHECK_MS = 30_000

/**
 * @param more what is written beside the state
 * @throws for what is no arrow of the payment's states: a mistake that must not reach the books
 */
function move(
  { row, purchaseId, lease }: Held,
  from: readonly PaymentState[],
  to: PaymentState,
  dueInMs: number | null,
  durability: Durability,
  more?: Partial<PaymentChange>,
): PaymentChange {
  for (const state of from) {
    if (state !== to && !mayMove(state, to))
      throw new Error(`Expected an arrow of the payment's states, got ${state} to ${to}.`)
  }
  return { row, from, lease, purchaseId, to, dueInMs, durability, ...more }
}

/** What a change does to the session of its payment, where it has one. */
const inSession = ({ sessionId }: Held, does: SessionMove['does']): Pick<PaymentChange, 'session'> =>
  sessionId == null ? {} : { session: { id: sessionId, does } }

/**
 * `claimed` → `settling`: what was signed, and the seller's answer, BEFORE the broadcast. On disk: without it nobody could
 * find out what became of those bytes.
 */
export const begin = (
  payment: Held,
  attempt: SettlementAttempt,
  answer: StoredAnswer | null,
): PaymentChange =>
  move(payment, ['claimed'], 'settling', nobody, 'flushed', {
    attempt,
    ...(answer !== null && { answer }),
    ...inSession(payment, 'take'),
  })

/**
 * `settling` stays, with other bytes: those of before were never sent, or were mined for nothing, and these are about to be
 * sent. On disk like those of before, and with the answer that was stored with them.
 */
export const beginAnew = (payment: Held, attempt: SettlementAttempt): PaymentChange =>
  move(payment, ['settling'], 'settling', nobody, 'flushed', { attempt })

/**
 * `claimed`, `settling`, `pending` → `rejected`: nothing was sent, or ever can be, and the payment is as good as before. Of one whose bytes are stored
 * that has to be on disk: after a power cut they would be sent although the buyer has heard that nothing was charged.
 */
export function free(payment: Standing, reason?: string): PaymentChange {
  const why = reason === undefined ? {} : { errorReason: reason }
  return payment.state === 'claimed'
    ? move(payment, ['claimed'], 'rejected', nobody, 'visible', why)
    : move(payment, [payment.state], 'rejected', nobody, 'flushed', {
        ...{ ...why, attempt: null, answer: null },
        ...inSession(payment, 'release'),
      })
}

/**
 * `pending` → `rejected`, of one that the books say was {@link neverSent}, and that its settler finds so. Not of one whose bytes somebody
 * has found in a block since it was read: who stood still meanwhile knows nothing of that.
 */
export const freeUnsent = (payment: Standing): PaymentChange => ({
  ...free(payment, neverSent),
  errorWas: neverSent,
})

/** `settling` → `pending`: sent, and its outcome is the recovery's to find. */
export const pend = (payment: Held, reason: string, dueInMs = SOON_MS): PaymentChange =>
  move(payment, ['settling'], 'pending', dueInMs, 'visible', { errorReason: reason })

/** `pending` stays, for a reason that is known now: mined and reverted, and anybody may still send it once more. */
export const stayPending = (payment: Standing, reason: string, dueInMs = SOON_MS): PaymentChange =>
  move(payment, ['pending'], 'pending', dueInMs, 'visible', { errorReason: reason })

/** `settling`, `pending`, `reorged` → `failed_final`: it can never land from us. */
export const giveUp = (payment: Standing, reason: string): PaymentChange =>
  move(payment, [payment.state], 'failed_final', CHECK_MS, 'visible', {
    errorReason: reason,
    ...inSession(payment, 'fail'),
  })

/**
 * `settling` → `settled`, by the call that settled it: payment, purchase and ledger entries in one commit. On disk at once
 * where the seller works only now, or where a facilitator's word is all there is; otherwise attempt and answer are on disk
 * already, and whoever finds them there books the same purchase.
 */
export function sell(
  payment: Held,
  sale: Sale,
  attempt: SettlementAttempt | null,
  settlesFirst: boolean,
): PaymentChange {
  if (payment.sessionId != null) return confirm(payment, 'settling', sale)
  const isTraced = attempt !== null && attempt.transaction !== ''
  return booked(payment, 'settling', 'settled', sale, settlesFirst || !isTraced ? 'flushed' : 'visible')
}

/**
 * What pays a session has landed: booked, and delivered by the same commit, which confirms the session. On disk at once: a
 * session that was seen confirmed is never open again.
 */
function confirm(payment: Held, from: PaymentState, sale: Sale): PaymentChange {
  const change = booked(payment, from, 'delivered', sale, 'flushed')
  return {
    ...{ ...change, ...inSession(payment, 'confirm') },
    tells: [...change.tells!, { kind: 'payment.confirmed' }],
  }
}

/**
 * What nobody waited for has landed, or came back after a reorganisation: booked, and then handed out to its buyer when
 * there is an answer, delivered when the buyer has had it, and owed back otherwise. Where the seller was never asked it can
 * be asked when the buyer comes back; after a reorganisation nobody knows.
 *
 * What left the chain is booked by what it was then ({@link leaveChain}), and only if that still holds: it may have come back, been
 * delivered and left anew since it was read.
 *
 * @param isSessionOver the session that it pays has ended otherwise, or somebody else is paying it: then it is owed back
 */
export function land(payment: Read, sale: Sale, isSessionOver = false): PaymentChange {
  const { state, errorReason } = payment
  const change = landed(payment, sale, isSessionOver)
  return state === 'reorged' && errorReason !== null ? { ...change, errorWas: errorReason } : change
}

function landed(payment: Read, sale: Sale, isSessionOver: boolean): PaymentChange {
  const { state, errorReason, hasAnswer } = payment
  if (payment.sessionId != null) return isSessionOver ? tooLate(payment, sale) : confirm(payment, state, sale)
  if (state === 'reorged' && errorReason === reorgedAfterDelivery)
    return booked(payment, state, 'delivered', sale)
  if (hasAnswer) {
    const mark = errorReason === notCollected ? { errorReason } : {}
    return { ...booked(payment, state, 'settled', sale), takenBy: null, ...mark }
  }
  return owed(payment, sale, state === 'reorged' ? 'never_delivered' : landedLate)
}

/**
 * `claimed` → `delivered`: a plain transfer, proved on chain, has paid a session. `claimed` → `refund_due` where the session
 * had ended otherwise and was no invoice. On disk at once: nothing else knows of it.
 */
export function bookTransfer(payment: Standing, sale: Sale, isSessionOver: boolean): PaymentChange {
  const { network } = sale.payment
  const noRefund = { network, transaction: sale.landed.transaction ?? '' }
  const change = isSessionOver ? tooLate(payment, sale) : confirm(payment, payment.state, sale)
  return { ...change, durability: 'flushed', noRefund }
}

/** What lands for a session that has ended without it. What pays fees lowers what is owed, whatever became of its invoice. */
const tooLate = (payment: Standing, sale: Sale): PaymentChange =>
  debtorOf(sale.payment.storeId) === undefined
    ? owed(payment, sale, sessionOver)
    : booked(payment, payment.state, 'delivered', sale, 'flushed')

function owed(payment: Standing, sale: Sale, reason: string): PaymentChange {
  const change = booked(payment, payment.state, 'refund_due', sale)
  return { ...change, errorReason: reason, tells: [...change.tells!, { kind: 'refund.due', detail: reason }] }
}

function booked(
  payment: Held,
  from: PaymentState,
  to: PurchaseStatus,
  sale: Sale,
  durability: Durability = 'visible',
): PaymentChange {
  const { purchase, entries } = purchaseOf(sale)
  return move(payment, [from], to, CHECK_MS, durability, {
    errorReason: null,
    settled: sale.landed,
    purchase: to === 'settled' ? purchase : { ...purchase, status: to },
    entries: bookable(entries, purchase.id),
    tells: [{ kind: 'purchase.confirmed' }],
  })
}

/** A payment as its call leaves it. */
export interface Left extends Standing {
  readonly hasAnswer: boolean
  /** False when the settler is known to have sent nothing, whatever is stored. */
  readonly hasBegun: boolean
}

/**
 * What becomes of a payment whose call is over: noted as delivered, kept for its buyer to come back for, owed back, freed
 * because it was never sent, or handed to the recovery.
 *
 * @param answer to keep for a repeated call, where the link charges first
 * @param reason why the call failed, when it did
 * @returns undefined when nothing is to be written
 */
export function conclude(
  payment: Left,
  fate: Fate,
  answer?: StoredAnswer,
  reason?: string,
): PaymentChange | undefined {
  switch (payment.state) {
    case 'claimed':
      return free(payment, reason)
    case 'settling':
      return payment.hasBegun ? handOn(payment) : free(payment, reason)
    case 'settled':
      return concludeCharged(payment, fate, answer)
    default:
      return undefined
  }
}

function concludeCharged(payment: Left, fate: Fate, answer?: StoredAnswer): PaymentChange | undefined {
  const kept = answer === undefined || payment.hasAnswer ? undefined : { answer }
  if (fate === 'delivered') return { ...deliver(payment), ...kept }
  // Who did not get it may come back for it, to whichever process.
  if (payment.hasAnswer) return keep(payment, fate)
  if (fate === 'seller_failed') return owe(payment, 'upstream_error')
  if (kept !== undefined) return { ...keep(payment, fate), ...kept }
  // The seller was not asked, and can be when the buyer comes back; or it was, and nothing is left to hand out.
  const wasAsked = fate !== 'not_asked' && fate !== 'not_charged'
  return owe(payment, wasAsked ? 'never_delivered' : landedLate)
}

/** `settled` stays: charged, with an answer that waits for its buyer. No call works on it. On disk like {@link deliver}. */
const keep = (payment: Held, fate: Fate): PaymentChange =>
  move(payment, ['settled'], 'settled', CHECK_MS, 'flushed', {
    takenBy: null,
    ...(fate === 'not_collected' && { errorReason: notCollected }),
  })

/**
 * `settled` → `delivered`, by its call. On disk: only this process knows that it has answered, and forgets it once this is written. A
 * database that crashed and forgot it as well would have the sale owed back.
 */
export const deliver = (payment: Held): PaymentChange =>
  move(payment, ['settled'], 'delivered', CHECK_MS, 'flushed', { purchaseStatus: 'delivered' })

/** `settled` → `delivered`, by a repeat that got the stored answer. */
export const handOut = ({ row, purchaseId }: Pick<Held, 'row' | 'purchaseId'>): PaymentChange => ({
  ...deliver({ row, purchaseId, lease: null }),
  errorReason: null,
})

/**
 * `settled` → `delivered` or `refund_due`, of what its buyer has not come for in time: an answer that the buyer had hung up on was there
 * to be collected, and what the gateway failed to send, or has no answer to, is owed back.
 */
export const expire = (payment: Read): PaymentChange =>
  payment.hasAnswer && payment.errorReason === notCollected
    ? deliver(payment)
    : owe(payment, 'never_delivered')

/**
 * `reorged` stays, of what was answered although its transfer had left the chain meanwhile, as another process has found: when it comes back
 * there is nothing to owe.
 *
 * @param errorWas the reason that it left the chain with, see {@link leaveChain}
 */
export const deliverReorged = (
  payment: Held,
  errorWas: 'reorged' | typeof notCollected = 'reorged',
): PaymentChange =>
  // Nobody's lease: whoever found it gone has taken it from its call.
  move({ ...payment, lease: null }, ['reorged'], 'reorged', SOON_MS, 'visible', {
    ...{ errorWas, errorReason: reorgedAfterDelivery },
  })

/** `settled`, `delivered` → `refund_due`. Nobody owes what has left the chain: it is looked up like any other. */
export const owe = (payment: Standing, reason: string): PaymentChange =>
  move(payment, [payment.state], 'refund_due', CHECK_MS, 'visible', {
    errorReason: reason,
    purchaseStatus: 'refund_due',
    tells: [{ kind: 'refund.due', detail: reason }],
  })

/** An open row that no call works on: the recovery looks at it at once. */
export const handOn = (payment: Standing): PaymentChange =>
  move(payment, [payment.state], payment.state, atOnce, 'visible')

/** An open row that its process has lost sight of: nobody's, and at once the recovery's. */
export const abandon = (payment: Standing): PaymentChange =>
  move(payment, [payment.state], payment.state, atOnce, 'visible', { takenBy: nobodysLease })

/**
 * Makes an open row the work of another lease. `settling` becomes `pending`, so that the call that began it can no longer
 * say that nothing was sent.
 */
export const takeUp = (payment: Standing, lease: number): PaymentChange =>
  payment.state === 'settling'
    ? move(payment, ['settling'], 'pending', atOnce, 'visible', {
        errorReason: 'settlement_pending',
        takenBy: lease,
      })
    : move(payment, [payment.state], payment.state, atOnce, 'visible', { takenBy: lease })

/** `settled`, `delivered`, `refund_due` → `reorged`: the transfer left the chain, and the sale the books. */
export function leaveChain(
  payment: Standing & Pick<PaymentRecord, 'errorReason'>,
  purchase: Purchase | undefined,
): PaymentChange {
  const errorReason = reasonToLeave(payment)
  const books =
    purchase === undefined
      ? undefined
      : {
          purchaseStatus: 'reorged' as const,
          entries: bookable(entriesOfRefund(purchase), purchase.id),
        }
  return move(payment, [payment.state], 'reorged', SOON_MS, 'visible', { errorReason, ...books })
}

/** What is known of the answer, for when the transfer comes back ({@link land}). */
function reasonToLeave({ state, errorReason }: Pick<PaymentRecord, 'state' | 'errorReason'>): string {
  if (state === 'delivered') return reorgedAfterDelivery
  return state === 'settled' && errorReason === notCollected ? notCollected : 'reorged'
}

/** Whether the seller can still be asked for what was charged when nobody waited any more. */
export const mayResume = ({ state, errorReason }: Pick<PaymentRecord, 'state' | 'errorReason'>): boolean =>
  state === 'refund_due' && errorReason === landedLate

/**
 * `refund_due` → `settled`, of a payment that {@link mayResume}: its buyer is back, and the seller is asked after all. Once: another
 * process may have asked it since this one looked, in vain, and then the payment is `refund_due` again.
 */
export const resume = (payment: Held, lease: number): PaymentChange =>
  move(payment, ['refund_due'], 'settled', CHECK_MS, 'flushed', {
    errorWas: landedLate,
    errorReason: null,
    takenBy: lease,
    purchaseStatus: 'settled',
  })

/** `settled`, `delivered`, `refund_due` → `refunded`, with the transfer back that was proved. */
export const payBack = (
  { row, purchaseId }: Held,
  purchase: Purchase,
  refund: TransferBackFound,
): PaymentChange =>
  move({ row, purchaseId, lease: null }, refundableStates, 'refunded', CHECK_MS, 'flushed', {
    purchaseStatus: 'refunded',
    refund,
    entries: bookable(entriesOfRefund(purchase), purchase.id),
    tells: [{ kind: 'refund.recorded' }],
  })

/**
 * `refunded` stays, of a transfer that is not where it was booked: it holds no event there any more, which may be another
 * payment's by now. Where it went to is nobody's question: it has been paid back.
 */
export const loosen = (
  { row, purchaseId, transaction, block, chargedAtomic, amountAtomic }: PaymentRecord,
  purchase: Purchase | undefined,
): PaymentChange =>
  move({ row, purchaseId, lease: null }, ['refunded'], 'refunded', nobody, 'visible', {
    settled: { transaction, event: null, block, chargedAtomic: chargedAtomic ?? amountAtomic },
    ...(purchase && { purchase: { ...purchase, status: 'refunded' } }),
  })

/**
 * `refunded` stays, of a refund that left the chain: the seller is told once. The sale is looked up on: the reorganisation that
 * took its refund may take it as well.
 */
export const loseRefund = ({ row, purchaseId }: Held): PaymentChange =>
  move({ row, purchaseId, lease: null }, ['refunded'], 'refunded', CHECK_MS, 'visible', {
    errorReason: refundLeftChain,
    tells: [{ kind: 'refund.due', detail: refundLeftChain }],
  })

/** `refunded` stays, of a refund that is back after its seller was told that it had left: it stands, as it was recorded. */
export const regainRefund = ({ row, purchaseId }: Held): PaymentChange =>
  move({ row, purchaseId, lease: null }, ['refunded'], 'refunded', CHECK_MS, 'visible', {
    errorReason: null,
    tells: [{ kind: 'refund.recorded' }],
  })
