import { landedLate, type PaymentRecord, type PaymentState, sessionOver } from '../domain/payment.ts'
import { TollgateError } from '../errors/error.ts'

/**
 * What a caller hears whose payment is in use, was used, or is open. Whatever is said is true for whoever holds the payment,
 * and never asks for a second payment of the same call.
 */

/**
 * 503, never 402: a client that is told to pay again would pay twice. It carries all that is known, so that a buyer can
 * look the transfer up.
 *
 * @param what how it stands with the payment, in one sentence
 * @param transaction hash or signature; empty while nothing is known to be sent
 * @param reason of x402, where more is known than that it is open
 */
export const settlementPending = (
  what: string,
  purchaseId: string,
  transaction: string,
  reason = 'settlement_pending',
): TollgateError =>
  new TollgateError(
    'settlement_pending',
    `${what} Repeat the same call with the same payment; do not pay again.`,
    {
      reason,
      retryAfterSeconds: 5,
      extra: { purchaseId, ...(transaction !== '' && { transaction }) },
      receipt: { transaction },
    },
  )

/** What is known of a payment that is used; of one that is at work here, its purchase only. */
type Used = Pick<PaymentRecord, 'purchaseId'> & Partial<Pick<PaymentRecord, 'transaction' | 'attempt'>>

const transactionOf = ({ transaction, attempt }: Partial<PaymentRecord>): string =>
  transaction ?? attempt?.transaction ?? ''

function used(reason: string, message: string, payment: Used): TollgateError {
  const transaction = transactionOf(payment)
  return new TollgateError('payment_already_used', message, {
    reason,
    extra: { purchaseId: payment.purchaseId, ...(transaction !== '' && { transaction }) },
    receipt: { transaction },
  })
}

const oneCall =
  'One payment buys one call: to get its answer, repeat that call with the same method, path, query and body; this call needs a payment of its own.'

/** For another call than the one that is under way. */
export const inUse = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment is in use for another call (purchase ${payment.purchaseId}). ${oneCall}`,
    payment,
  )

/** For another call than the one that was bought. */
export const hasBought = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment has bought another call (purchase ${payment.purchaseId}). ${oneCall}`,
    payment,
  )

/** For a call that may be the one that was bought, where both have bodies that are too long to be compared. */
export const notCompared = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment belongs to a call with a body too long for the gateway to compare (purchase ${payment.purchaseId}): such a call is never answered twice. If this is a repeat of it, do not pay again: ask the seller for the answer with the purchase id. Another call needs a payment of its own.`,
    payment,
  )

/** For the same call from somewhere else. */
export const boughtByAnother = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment has bought this call (purchase ${payment.purchaseId}) for another caller. Anybody can read it on chain, so the answer is handed out again only with the Idempotency-Key that came with the call or, where none came, to the network address that sent the call first: repeat it so. Do not pay again; an answer that the gateway failed to send is owed back after a day.`,
    payment,
  )

/**
 * What becomes of a request whose payment somebody has, and that is not through yet: where it is the same one, it waits for
 * as long as somebody works on the payment.
 *
 * @param payment `claimed`, `settling`, `pending` or `reorged`
 * @throws `payment_already_used` for another request, `settlement_pending` where only the chain can tell
 */
export function waiting(payment: PaymentRecord, isSame: boolean): 'wait' {
  if (!isSame) throw inUse(payment)
  if (payment.state === 'pending' || payment.state === 'reorged') throw stillPending(payment)
  return 'wait'
}

/** For the same call, whose answer is not handed out again. */
export const wasDelivered = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment has bought this call (purchase ${payment.purchaseId}), and its answer was delivered; it is handed out again for a short time only. If it never reached you, ask the seller before you pay for the call once more.`,
    payment,
  )

/** For a call that has waited for an answer which is streamed and not kept, or which nobody has yet noted as lost. */
export const notKept = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment was charged (purchase ${payment.purchaseId}), and the answer to its call is still being sent or was broken off; it is not handed out twice. Do not pay again for the same call: if nothing came, the seller owes you a refund.`,
    payment,
  )

/** @param mayComeBack the call that it was sent with would be answered now */
export function refundOwed(payment: PaymentRecord, mayComeBack: boolean): TollgateError {
  if (payment.errorReason === sessionOver)
    return used(
      'charged_refund_owed',
      `This payment was charged (purchase ${payment.purchaseId}) when its session had ended or was paid otherwise. The seller owes you a refund: ask for it with the purchase id.`,
      payment,
    )
  const way = mayComeBack ? 'Repeat the call that it was sent with to have it answered; otherwise the' : 'The'
  return used(
    'charged_refund_owed',
    `This payment was charged (purchase ${payment.purchaseId}) and its call was not answered. ${way} seller owes you a refund: ask for it with the purchase id, and do not pay again for the same call.`,
    payment,
  )
}

export const wasRefunded = (payment: Used): TollgateError =>
  used(
    'refunded',
    `This payment was charged, and the seller has paid it back (purchase ${payment.purchaseId}). It buys nothing any more; a call costs a new payment.`,
    payment,
  )

/** @param transaction hash or signature of what this very call has sent; empty for a repeat */
export const failedForGood = (
  { errorReason }: Pick<PaymentRecord, 'errorReason'>,
  transaction = '',
): TollgateError =>
  new TollgateError(
    'invalid_payment',
    'This payment did not go through and never will; nothing was charged. Sign a new one.',
    {
      reason: errorReason ?? 'invalid_transaction_state',
      ...(transaction !== '' && { extra: { transaction }, receipt: { transaction } }),
    },
  )

export const stillPending = (payment: PaymentRecord): TollgateError =>
  settlementPending(pendingWords(payment.state), payment.purchaseId, transactionOf(payment))

function pendingWords(state: PaymentState): string {
  if (state === 'claimed') return 'The first call with this payment is still at work.'
  if (state === 'reorged') return 'The transfer of this payment left the chain again and may come back.'
  return 'This payment is being settled.'
}

/** The chain has the money and the store does not say so yet: the buyer asks again and gets the stored answer. */
const beingRecorded = (purchaseId: string, transaction: string): TollgateError =>
  settlementPending('The payment is through and is being recorded.', purchaseId, transaction)

/**
 * What the call hears that worked on a payment, when somebody else has moved it meanwhile.
 *
 * @param payment as it stands; undefined when the store does not say
 */
export function movedMeanwhile(
  payment: PaymentRecord | undefined,
  purchaseId: string,
  transaction: string,
): TollgateError {
  if (payment?.purchaseId === purchaseId) {
    if (payment.state === 'refunded') return wasRefunded(payment)
    if (payment.state === 'refund_due') return refundOwed(payment, payment.errorReason === landedLate)
  }
  return beingRecorded(purchaseId, transaction)
}

/** For a payment of a session that has ended, or that another payment is being settled for. */
export const sessionNotOpen = (
  how = 'has ended, or another payment is being settled for it',
): TollgateError => new TollgateError('SESSION_NOT_OPEN', `This payment session ${how}; nothing was charged.`)
