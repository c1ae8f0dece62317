import type { PaymentRecord } from '../../core/domain/payment.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import type { PurchaseNotes } from '../../core/payments/purchaseNote.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Reply } from '../../core/plugin/reply.ts'
import { receiptHeaders } from '../../core/x402/receipt.ts'

export interface RepeatRules {
  readonly notes: PurchaseNotes
  readonly replayWindowMs: number
  readonly now: () => number
}

/** What a call gets whose payment somebody has already: an answer, or undefined while that is still open. */
export function answerRepeat(
  x: Exchange,
  record: PaymentRecord,
  hash: string | null,
  rules: RepeatRules,
): Reply | undefined {
  // One payment buys one call: another link, another body, or a body too long to compare.
  if (hash === null || record.requestHash !== hash || record.linkId !== x.link.id) throw alreadyUsed()
  switch (record.state) {
    case 'claimed':
    case 'verified':
    case 'settling':
    case 'rejected':
      return
    case 'pending':
    case 'reorged':
      throw stillPending(record.purchaseId)
    case 'failed_final':
      throw new TollgateError(
        'invalid_payment',
        'This payment did not go through and never will. Sign a new one.',
        {
          reason: record.errorReason ?? 'invalid_transaction_state',
        },
      )
    case 'settled':
      // Charged first, and the answer is still on its way to whoever asked first.
      if (record.answer === null && x.link.settle === 'before') return
      return storedReply(x, record, rules)
    case 'delivered':
      return storedReply(x, record, rules)
    case 'refund_due':
    case 'refunded':
      throw alreadyUsed()
  }
}

function storedReply(x: Exchange, record: PaymentRecord, { notes, replayWindowMs, now }: RepeatRules): Reply {
  const { answer } = record
  // What the buyer paid for and never got stays there for as long as it is kept; a second helping is for retries only.
  const isLate = record.state === 'delivered' && now() - record.claimedAtMs > replayWindowMs
  if (answer === null || isLate) throw alreadyUsed()
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

export function alreadyUsed(): TollgateError {
  return new TollgateError('payment_already_used', 'This payment has bought another call. Sign a new one.', {
    reason: 'payment_already_used',
  })
}

export function stillPending(purchaseId: string): TollgateError {
  return new TollgateError(
    'settlement_pending',
    'This payment is being settled. Repeat the same call with the same payment; do not pay again.',
    { retryAfterSeconds: 5, extra: { purchaseId } },
  )
}

function mediaTypeOf(headers: readonly string[]): string {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]!.length === 12 && headers[i]!.toLowerCase() === 'content-type') {
      return headers[i + 1]!.split(';')[0]!.trim().toLowerCase()
    }
  }
  return ''
}
