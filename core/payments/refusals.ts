import {
  landedLate,
  type PaymentRecord,
  type PaymentState,
  refundLeftChain,
  sessionOver,
} from '../domain/payment.ts'
import { TollgateError } from '../errors/error.ts'

/**
 * The errors for a caller whose payment is in use, used or open. Each error is correct for every holder of the payment, and none
 * asks for a second payment for the same call.
 */

/**
 * The error for a payment with an unknown outcome. The status is 503, never 402, because a 402 would make the client pay twice. The
 * error has all known facts, so that the buyer can look up the transfer.
 *
 * @param what the state of the payment, in one sentence
 * @param transaction hash or signature, empty if none is known to be sent
 * @param reason x402 reason, if there is a more exact one than `settlement_pending`
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

/** The known facts of a used payment. If this process is working on the payment, only the purchase is known. */
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
  'One payment buys one call. To get its response, repeat that call with the same method, path, query and body; this call needs a payment of its own.'

/** The error for a different call than the call in flight with this payment. */
export const inUse = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment is in use for another call (purchase ${payment.purchaseId}). ${oneCall}`,
    payment,
  )

/** The error for a different call than the call that the payment has bought. */
export const hasBought = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment has bought another call (purchase ${payment.purchaseId}). ${oneCall}`,
    payment,
  )

/** The error for a call that may be the one that the payment has bought. The bodies of both calls are too long to compare. */
export const notCompared = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment belongs to a call with a body too long for the gateway to compare (purchase ${payment.purchaseId}), so the gateway never sends its response again. If you repeat that call, do not pay again, but contact the seller with the purchase id. Another call needs another payment.`,
    payment,
  )

/** The error for a payment that is not claimed, because another payment of its payer has its identifier. */
export const identifierTaken = ({ purchaseId }: Used): TollgateError =>
  new TollgateError(
    'payment_id_reused',
    `The payment identifier of this payment belongs to another payment of the same wallet (purchase ${purchaseId}). Nothing was charged for this payment. To get the response of that purchase, repeat its call with its own payment. For another purchase, sign a payment with a new identifier.`,
    { extra: { purchaseId } },
  )

/** The error for the same call by another caller. */
export const boughtByAnother = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment has bought this call (purchase ${payment.purchaseId}) for another caller. Payments are public on chain. The gateway therefore sends the response again only to a caller with the payment identifier or Idempotency-Key of the first call, or without these to the IP address that sent the first call. If you made the first call, repeat it in this way. Do not pay again. If the gateway failed to send the response, the seller owes you a refund after a day.`,
    payment,
  )

/** The error for the same call, if its response is not sent again. */
export const wasDelivered = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment has bought this call (purchase ${payment.purchaseId}), and its response was delivered. The gateway sends a delivered response again only for a short time. If the response never reached you, contact the seller before you pay for the call again.`,
    payment,
  )

/**
 * The error for a repeated call that has waited for a response. The response is streamed and not stored, or its loss is not
 * recorded yet.
 */
export const notStored = (payment: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment was charged (purchase ${payment.purchaseId}), and the response to its call is still being sent or was broken off; it is not sent twice. Do not pay again for the same call: if nothing arrived, the seller owes you a refund.`,
    payment,
  )

/** @param isRepeatable whether a repeat of the paid call would get a response now */
export function refundOwed(payment: PaymentRecord, isRepeatable: boolean): TollgateError {
  if (payment.errorReason === sessionOver)
    return used(
      'charged_refund_owed',
      `This payment was charged (purchase ${payment.purchaseId}) after its payment session had ended or was paid otherwise. The seller owes you a refund: request it with the purchase id.`,
      payment,
    )
  if (payment.errorReason === refundLeftChain)
    return used(
      'charged_refund_owed',
      `This payment was charged (purchase ${payment.purchaseId}), and its refund left the chain. The seller owes you another refund: request it with the purchase id, and do not pay again for the same call.`,
      payment,
    )
  const advice = isRepeatable
    ? 'Repeat the call that it was sent with to get its response; otherwise the'
    : 'The'
  return used(
    'charged_refund_owed',
    `This payment was charged (purchase ${payment.purchaseId}) and its call got no response. ${advice} seller owes you a refund: request it with the purchase id, and do not pay again for the same call.`,
    payment,
  )
}

export const wasRefunded = (payment: Used): TollgateError =>
  used(
    'refunded',
    `This payment was charged, and the seller has paid it back (purchase ${payment.purchaseId}). It cannot be used again; a call needs a new payment.`,
    payment,
  )

/** @param transaction hash or signature that this call has sent, empty for a repeated call */
export const failedForGood = (
  { errorReason }: Pick<PaymentRecord, 'errorReason'>,
  transaction = '',
): TollgateError =>
  new TollgateError('invalid_payment', 'This payment failed for good; nothing was charged. Sign a new one.', {
    reason: errorReason ?? 'invalid_transaction_state',
    ...(transaction !== '' && { extra: { transaction }, receipt: { transaction } }),
  })

export const stillPending = (payment: PaymentRecord): TollgateError =>
  settlementPending(pendingWords(payment.state), payment.purchaseId, transactionOf(payment))

function pendingWords(state: PaymentState): string {
  if (state === 'claimed') return 'The first call with this payment is still running.'
  if (state === 'reorged') return 'The transfer of this payment left the chain again and may come back.'
  return 'This payment is being settled.'
}

/**
 * The error for a payment whose money is on chain while the database does not have the sale yet. If the buyer repeats the call, the
 * buyer gets the stored response.
 */
const beingRecorded = (purchaseId: string, transaction: string): TollgateError =>
  settlementPending('The payment has settled and is being recorded.', purchaseId, transaction)

/**
 * The error for a call whose payment another process has moved meanwhile.
 *
 * @param payment the payment's current row. Undefined if the database does not respond
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

/** The error for a payment to a payment session that has ended, or for which another payment is being settled. */
export const sessionNotOpen = (
  how = 'has ended, or another payment is being settled for it',
): TollgateError => new TollgateError('SESSION_NOT_OPEN', `This payment session ${how}; nothing was charged.`)

/** The error for a call whose row is not in the state that the call has written, although nothing was sent for it. */
export const notBegun = (): TollgateError =>
  new TollgateError(
    'settlement_unavailable',
    'The settlement could not begin. Nothing was charged. Try again with the same payment.',
    { retryAfterSeconds: 5 },
  )
