import { bookable, debtorOf, entriesOfLostRefund, entriesOfRefund } from '../domain/ledger.ts'
import {
  isSentFirst,
  landedLate,
  neverSent,
  notCollected,
  type PaymentRecord,
  refundableStates,
  refundedTwice,
  refundLeftChain,
  reorgedAfterDelivery,
  sessionOver,
} from '../domain/payment.ts'
import type { Purchase, Refund } from '../domain/purchase.ts'
import type { PaymentChange, TransferBackFound } from '../ports/store/ledger.ts'
import type { Sale } from './purchase.ts'
import {
  AT_ONCE,
  booked,
  CHECK_MS,
  confirm,
  free,
  type Held,
  move,
  type Read,
  SOON_MS,
  type Standing,
} from './rules.ts'

/**
 * Changes of payments for which no call waits. Such a payment landed late, was never sent, left the chain, came back, or was
 * refunded. The changes that a call makes are in rules.ts.
 */

/**
 * Moves an open row to another lease. `settling` becomes `pending`, so that the call that began the settlement can no longer report
 * that nothing was sent.
 */
export const takeUp = (payment: Standing, lease: number): PaymentChange =>
  payment.state === 'settling'
    ? move(payment, ['settling'], 'pending', AT_ONCE, 'visible', {
        errorReason: 'settlement_pending',
        takenBy: lease,
      })
    : move(payment, [payment.state], payment.state, AT_ONCE, 'visible', { takenBy: lease })

/** `pending` stays, with a reason. The transaction was mined and reverted, and any sender may still submit the payment again. */
export const stayPending = (payment: Standing, reason: string, dueInMs = SOON_MS): PaymentChange =>
  move(payment, ['pending'], 'pending', dueInMs, 'visible', { errorReason: reason })

/**
 * `pending` → `rejected`, for a payment whose row has the reason {@link neverSent} and whose settler has confirmed it. The change
 * requires that the row still has that reason, because another process may have found the bytes in a block since this process read
 * the row.
 */
export const freeUnsent = (payment: Standing): PaymentChange => ({
  ...free(payment, neverSent),
  errorWas: neverSent,
})

/**
 * A transfer for which no call waited has landed, or has come back after a reorganization. The change records the sale. If there is
 * a response, it is stored for the buyer. If the buyer already has the response, the payment is delivered. That is also the case if it was sent before the charge. Otherwise the payment is
 * owed back. If the seller's API was never called, it can still be called when the buyer returns. After a reorganization it is not
 * known whether it was called.
 *
 * If the transfer had left the chain, the change depends on the reason that {@link leaveChain} wrote, and requires that the row
 * still has that reason. Since the row was read, the transfer may have come back, been delivered and left again.
 *
 * @param isSessionOver true if the payment session has ended without this payment, or another payment pays the session. The payment
 *   is then owed back
 */
export function land(payment: Read, sale: Sale, isSessionOver = false): PaymentChange {
  const { state, errorReason } = payment
  const change = landed(payment, sale, isSessionOver)
  return state === 'reorged' && errorReason !== null ? { ...change, errorWas: errorReason } : change
}

function landed(payment: Read, sale: Sale, isSessionOver: boolean): PaymentChange {
  const { state, errorReason, hasResponse } = payment
  if (payment.sessionId != null) return isSessionOver ? tooLate(payment, sale) : confirm(payment, state, sale)
  if (state === 'reorged' && errorReason === reorgedAfterDelivery)
    return booked(payment, state, 'delivered', sale)
  if (state === 'reorged' && errorReason === refundLeftChain) return owed(payment, sale, refundLeftChain)
  if (isSentFirst(payment)) return booked(payment, state, 'delivered', sale)
  if (hasResponse) {
    const mark = errorReason === notCollected ? { errorReason } : {}
    return { ...booked(payment, state, 'settled', sale), takenBy: null, ...mark }
  }
  return owed(payment, sale, state === 'reorged' ? 'never_delivered' : landedLate)
}

/**
 * `claimed` → `delivered`, for a plain transfer that was proved on chain and has paid a payment session. `claimed` → `refund_due`
 * if the session had ended without the transfer and was not an invoice. Flushed, because the ledger has no other trace of the
 * transfer.
 */
export function bookTransfer(payment: Standing, sale: Sale, isSessionOver: boolean): PaymentChange {
  const { network } = sale.payment
  const noRefund = { network, transaction: sale.landed.transaction ?? '' }
  const change = isSessionOver ? tooLate(payment, sale) : confirm(payment, payment.state, sale)
  return { ...change, durability: 'flushed', noRefund }
}

/**
 * The change for a payment that lands after its payment session has ended without it. A payment of fees lowers what the seller
 * owes, even if its invoice has ended.
 */
const tooLate = (payment: Standing, sale: Sale): PaymentChange =>
  debtorOf(sale.payment.storeId) === undefined
    ? owed(payment, sale, sessionOver)
    : booked(payment, payment.state, 'delivered', sale, 'flushed')

function owed(payment: Standing, sale: Sale, reason: string): PaymentChange {
  const change = booked(payment, payment.state, 'refund_due', sale)
  return {
    ...change,
    errorReason: reason,
    events: [...change.events!, { kind: 'refund.due', detail: reason }],
  }
}

/** Whether the gateway can still call the seller's API for a payment that was charged after its call had ended. */
export const mayResume = ({ state, errorReason }: Pick<PaymentRecord, 'state' | 'errorReason'>): boolean =>
  state === 'refund_due' && errorReason === landedLate

/**
 * `refund_due` → `settled`, for a payment that {@link mayResume}. Its buyer has returned, and the gateway now calls the seller's
 * API. This happens only once. If another process has called the API without success since the row was read, the payment is
 * `refund_due` for another reason, so this change fails.
 */
export const resume = (payment: Held, lease: number): PaymentChange =>
  move(payment, ['refund_due'], 'settled', CHECK_MS, 'flushed', {
    errorWas: landedLate,
    errorReason: null,
    takenBy: lease,
    purchaseStatus: 'settled',
  })

/** `settled`, `delivered`, `refund_due` → `reorged`. The transfer left the chain, so its sale leaves the ledger. */
export function leaveChain(
  payment: Standing & Pick<PaymentRecord, 'errorReason'>,
  purchase: Purchase | undefined,
): PaymentChange {
  const errorReason = reasonToLeave(payment)
  const reversal =
    purchase === undefined
      ? undefined
      : {
          purchaseStatus: 'reorged' as const,
          entries: bookable(entriesOfRefund(purchase), purchase.id),
        }
  return move(payment, [payment.state], 'reorged', SOON_MS, 'visible', { errorReason, ...reversal })
}

/** What is known about the response, in case the transfer comes back ({@link land}). */
function reasonToLeave({ state, errorReason }: Pick<PaymentRecord, 'state' | 'errorReason'>): string {
  if (state === 'delivered') return reorgedAfterDelivery
  if (state === 'refund_due' && errorReason === refundLeftChain) return refundLeftChain
  return state === 'settled' && errorReason === notCollected ? notCollected : 'reorged'
}

/**
 * `reorged` stays. The payment's call has sent its response, but another process found meanwhile that the transfer had left the
 * chain. With the new reason, nothing is owed if the transfer comes back.
 *
 * @param errorWas the reason that {@link leaveChain} wrote
 */
export const deliverReorged = (
  payment: Held,
  errorWas: 'reorged' | typeof notCollected = 'reorged',
): PaymentChange =>
  // The lease does not matter, because the process that noticed the loss has taken the row from its call.
  move({ ...payment, lease: null }, ['reorged'], 'reorged', SOON_MS, 'visible', {
    errorWas,
    errorReason: reorgedAfterDelivery,
  })

/** `settled`, `delivered`, `refund_due` → `refunded`, with the refund transfer that was proved on chain. */
export const payBack = (
  { row, purchaseId }: Held,
  purchase: Purchase,
  refund: TransferBackFound,
): PaymentChange =>
  move({ row, purchaseId, lease: null }, refundableStates, 'refunded', CHECK_MS, 'flushed', {
    purchaseStatus: 'refunded',
    refund,
    entries: bookable(entriesOfRefund(purchase), purchase.id),
    events: [{ kind: 'refund.recorded' }],
  })

/**
 * `refunded` stays, for a transfer that is not at its recorded place on chain. The row releases its event, which may belong to
 * another payment by now. Recovery checks only the refund from now on, because a refunded transfer need not be found.
 */
export const loosen = (
  { row, purchaseId, transaction, block, chargedAtomic, amountAtomic }: PaymentRecord,
  purchase: Purchase | undefined,
): PaymentChange =>
  move({ row, purchaseId, lease: null }, ['refunded'], 'refunded', CHECK_MS, 'visible', {
    settled: { transaction, event: null, block, chargedAtomic: chargedAtomic ?? amountAtomic },
    ...(purchase && { purchase: { ...purchase, status: 'refunded' } }),
  })

/**
 * `refunded` → `refund_due`, for a refund that left the chain. Its ledger entries are reversed, and its transaction stays recorded.
 * Recovery still checks the sale, because the reorganization that removed its refund may remove the sale as well.
 *
 * @param isPaidOtherwise true if an earlier refund is on chain again and is about to be recorded, so that the seller owes nothing
 */
export const loseRefund = (
  { row, purchaseId }: Held,
  purchase: Purchase,
  { network, transaction }: Refund,
  isPaidOtherwise: boolean,
): PaymentChange =>
  move({ row, purchaseId, lease: null }, ['refunded'], 'refund_due', AT_ONCE, 'flushed', {
    errorReason: refundLeftChain,
    purchaseStatus: 'refund_due',
    lostRefund: { network, transaction },
    entries: bookable(entriesOfLostRefund(purchase), purchase.id),
    ...(!isPaidOtherwise && { events: [{ kind: 'refund.due', detail: refundLeftChain }] }),
  })

/** `refund_due` → `refunded`, for a refund that is on chain again and was not replaced by another refund. */
export const regainRefund = (
  payment: Held,
  purchase: Purchase,
  refund: TransferBackFound,
): PaymentChange => ({
  ...payBack(payment, purchase, refund),
  from: ['refund_due'],
  errorWas: refundLeftChain,
  errorReason: null,
})

/**
 * `refunded` stays. A lost refund is on chain again after another refund replaced it, so the seller is notified that both refunds
 * are on chain.
 */
export const noteRefundedTwice = ({ row, purchaseId }: Held): PaymentChange =>
  move({ row, purchaseId, lease: null }, ['refunded'], 'refunded', CHECK_MS, 'visible', {
    errorReason: refundedTwice,
    events: [{ kind: 'refund.recorded', detail: refundedTwice }],
  })
