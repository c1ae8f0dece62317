import type { ReceiptVerdict, SignedPayment } from './buyer.ts'
import { type HttpAnswer, valuesOf } from './httpCall.ts'
import type { PayOutcome } from './payReport.ts'
import type { SellerReceipt } from './readReceipt.ts'
import type { Sent } from './sendPayment.ts'

export interface Judgement {
  readonly outcome: PayOutcome
  readonly message: string
}

/**
 * What became of a payment that was sent, in one word and in one sentence: the seller's answer says what was bought, the
 * chain says whether it was paid, and where they differ the chain is right.
 */
export function judge(
  sent: Sent,
  receipt: SellerReceipt,
  verdict: ReceiptVerdict,
  payment: SignedPayment,
): Judgement {
  const { answer } = sent
  if (answer !== null && isDelivery(answer, receipt)) return judgeSuccess(answer, receipt, verdict)
  const reason = receipt.kind === 'not_settled' && receipt.reason !== '' ? ` (${receipt.reason})` : ''
  const said =
    answer === null ? `No answer came (${sent.failure})` : `The seller answered ${answer.status}${reason}`
  const until = new Date(payment.validBeforeMs).toISOString()
  if (verdict.charged === 'yes') {
    return { outcome: 'bad_answer', message: `You were charged, but there is no good answer. ${said}.` }
  }
  if (verdict.charged === 'no') {
    return {
      outcome: 'rejected',
      message: `${said}. You were not charged: the payment can not land any more.`,
    }
  }
  if (verdict.charged === 'not_yet' && answer !== null && answer.status < 500) {
    return {
      outcome: 'rejected',
      message: `${said}. You are not charged so far; the payment can be used until ${until}.`,
    }
  }
  return {
    outcome: 'unknown',
    message: `${said}, and ${verdict.problem}. The payment can be used until ${until}.`,
  }
}

/** Some sell the address of a thing, and answer a payment with a redirect to it. Without a receipt it may lead anywhere. */
function isDelivery({ status, headers }: HttpAnswer, receipt: SellerReceipt): boolean {
  if (status >= 200 && status < 300) return true
  return status < 400 && receipt.kind === 'settled' && valuesOf(headers, 'location').length === 1
}

function judgeSuccess(answer: HttpAnswer, receipt: SellerReceipt, verdict: ReceiptVerdict): Judgement {
  const problem =
    receipt.kind === 'wrong'
      ? receipt.problem
      : receipt.kind === 'not_settled'
        ? `the seller answered, but says that it did not settle (${receipt.reason})`
        : verdict.problem
  if (!verdict.isVerified || receipt.kind === 'wrong' || receipt.kind === 'not_settled') {
    const charged = {
      yes: 'You were charged.',
      no: 'You were not charged.',
      not_yet: 'You are not charged so far.',
    }
    const known =
      verdict.charged === 'unknown' ? 'Whether you were charged is not known.' : charged[verdict.charged]
    return { outcome: 'unverified', message: `Paid but not verified: ${problem}. ${known}` }
  }
  if (!answer.isWhole) return { outcome: 'bad_answer', message: 'Paid, but the answer broke off.' }
  if (!answer.isWithinLimit) {
    return {
      outcome: 'bad_answer',
      message: 'Paid, but the answer is longer than the limit; its beginning was kept.',
    }
  }
  if (answer.status >= 300)
    return {
      outcome: 'paid',
      message: 'Paid; the chain confirms it. What was bought is at the address below.',
    }
  return { outcome: 'paid', message: 'Paid; the chain confirms it.' }
}
