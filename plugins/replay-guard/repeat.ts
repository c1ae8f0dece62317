import {
  landedLate,
  type PaymentRecord,
  type PaymentState,
  type StoredAnswer,
} from '../../core/domain/payment.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { contentTypeOf } from '../../core/http/contentType.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import type { PurchaseNotes } from '../../core/payments/purchaseNote.ts'
import { settlementPending } from '../../core/payments/settlementPending.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Reply } from '../../core/plugin/reply.ts'
import { receiptHeaders } from '../../core/x402/receipt.ts'

export interface RepeatRules {
  readonly notes: PurchaseNotes
  readonly replayWindowMs: number
  readonly now: () => number
}

/**
 * What a call gets whose payment somebody has already: an answer, or undefined while that is still open. Whatever state the
 * payment is in, what is said is true for whoever holds it, and never asks for a second payment of the same call.
 *
 * @param hash null for a body that is too long to compare: then it is another call
 */
export function answerRepeat(
  x: Exchange,
  record: PaymentRecord,
  hash: string | null,
  rules: RepeatRules,
): Reply | undefined {
  const isSame = isSameCall(x, record, hash)
  switch (record.state) {
    case 'rejected':
      return
    case 'claimed':
    case 'verified':
    case 'settling':
      if (isSame) return
      throw inUse(record)
    case 'pending':
      throw isSame ? stillPending(record) : inUse(record)
    case 'reorged':
      throw isSame ? stillPending(record) : inUse(record)
    case 'failed_final':
      throw new TollgateError(
        'invalid_payment',
        'This payment did not go through and never will; nothing was charged. Sign a new one.',
        { reason: record.errorReason ?? 'invalid_transaction_state' },
      )
    case 'settled':
      // Charged first, and its answer is still on its way, or nobody has noted yet that there is none.
      if (record.answer === null) return
      if (isSame) return storedReply(x, record, record.answer, rules)
      throw hasBought(record)
    case 'delivered':
      if (!isSame) throw hasBought(record)
      // What the buyer paid for and never got stays for as long as it is kept; a second helping is for retries only.
      if (record.answer === null || !isRecent(record, rules)) throw wasDelivered(record)
      return storedReply(x, record, record.answer, rules)
    case 'refund_due':
      throw isOwed(record, rules)
    case 'refunded':
      throw used(
        'refunded',
        `This payment was charged, and the seller has paid it back (purchase ${record.purchaseId}). It buys nothing any more; a call costs a new payment.`,
        record,
      )
  }
}

/** @param hash null for a body that is too long to compare: then it is another call */
export const isSameCall = (x: Exchange, record: PaymentRecord, hash: string | null): boolean =>
  hash !== null && record.requestHash === hash && record.linkId === x.link.id

/** What a call gets that has waited for the first one with its payment for as long as it may. */
export function notInTime(record: PaymentRecord, isRunningHere: boolean): TollgateError {
  // An answer that is streamed and not kept can't be handed out again, however long one waits.
  if (record.state !== 'settled' || isRunningHere) return stillPending(record)
  return used(
    'payment_already_used',
    `This payment was charged (purchase ${record.purchaseId}), and the answer to its call is still being sent or was broken off; it is not handed out twice. Do not pay again for the same call: if nothing came, the seller owes you a refund.`,
    record,
  )
}

/** Whether a payment was claimed so lately that a repeat of its call is answered. */
export const isRecent = ({ claimedAtMs }: PaymentRecord, { replayWindowMs, now }: RepeatRules): boolean =>
  now() - claimedAtMs <= replayWindowMs

function storedReply(
  x: Exchange,
  record: PaymentRecord,
  answer: StoredAnswer,
  { notes }: RepeatRules,
): Reply {
  const receipt = storedReceipt(x, record)
  const note = notes.of(record.purchaseId, x.link.responseMode === 'wrap')
  return paidReply(answer, mediaTypeOf(answer.headers), note, receipt, x.link.settle === 'before')
}

/** The receipt of a payment that is settled. */
export function storedReceipt(x: Exchange, record: PaymentRecord): readonly string[] {
  return receiptHeaders(x.payment!.payload.x402Version, {
    success: true,
    transaction: record.transaction ?? '',
    network: record.network,
    payer: record.payer,
    amount: record.amountAtomic.toString(),
  })
}

/** What is known of a payment that is used; of one that is at work here, its purchase only. */
type Used = Pick<PaymentRecord, 'purchaseId'> & Partial<Pick<PaymentRecord, 'transaction' | 'attempt'>>

const transactionOf = ({ transaction, attempt }: Partial<PaymentRecord>): string =>
  transaction ?? attempt?.transaction ?? ''

function used(reason: string, message: string, record: Used): TollgateError {
  const transaction = transactionOf(record)
  return new TollgateError('payment_already_used', message, {
    reason,
    extra: { purchaseId: record.purchaseId, ...(transaction !== '' && { transaction }) },
    receipt: { transaction },
  })
}

const oneCall =
  'One payment buys one call: to get its answer, repeat that call with the same method, path, query and body; this call needs a payment of its own.'

/** For another call than the one that is under way. */
export const inUse = (record: Used): TollgateError =>
  used(
    'payment_already_used',
    `This payment is in use for another call (purchase ${record.purchaseId}). ${oneCall}`,
    record,
  )

const hasBought = (record: Used) =>
  used(
    'payment_already_used',
    `This payment has bought another call (purchase ${record.purchaseId}). ${oneCall}`,
    record,
  )

const wasDelivered = (record: Used) =>
  used(
    'payment_already_used',
    `This payment has bought this call (purchase ${record.purchaseId}), and its answer was delivered; it is handed out again for a short time only. If it never reached you, ask the seller before you pay for the call once more.`,
    record,
  )

function isOwed(record: PaymentRecord, rules: RepeatRules): TollgateError {
  const maySay = record.errorReason === landedLate && isRecent(record, rules)
  const way = maySay ? 'Repeat the call that it was sent with to have it answered; otherwise the' : 'The'
  return used(
    'charged_refund_owed',
    `This payment was charged (purchase ${record.purchaseId}) and its call was not answered. ${way} seller owes you a refund: ask for it with the purchase id, and do not pay again for the same call.`,
    record,
  )
}

function stillPending(record: PaymentRecord): TollgateError {
  return settlementPending(pendingWords(record.state), record.purchaseId, transactionOf(record))
}

function pendingWords(state: PaymentState): string {
  if (state === 'claimed' || state === 'verified') return 'The first call with this payment is still at work.'
  if (state === 'reorged') return 'The transfer of this payment left the chain again and may come back.'
  return 'This payment is being settled.'
}

function mediaTypeOf(headers: readonly string[]): string {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]!.length === 12 && headers[i]!.toLowerCase() === 'content-type') {
      return contentTypeOf(headers[i + 1]!).mediaType
    }
  }
  return ''
}
