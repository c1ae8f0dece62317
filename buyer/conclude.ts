import type { ReceiptVerdict, SignedPayment } from './buyer.ts'
import { verifyReceipt } from './chains/verifyReceipt.ts'
import { type HttpAnswer, valuesOf } from './httpCall.ts'
import { judge } from './judge.ts'
import type { KeptPayments } from './keptPayments.ts'
import type { PaymentSummary, PayOutcome, PayReport } from './payReport.ts'
import { readReceipt, type SellerReceipt } from './readReceipt.ts'
import type { Sent } from './sendPayment.ts'

/** How long the chain is asked after a refusal: nothing should land any more, so one look and another will do. */
const LOOK_AFTER_REFUSAL_MS = 2_000

export interface Conclusion {
  readonly url: string
  readonly summary: PaymentSummary
  readonly payment: SignedPayment
  readonly sent: Sent
  readonly payments: KeptPayments
  /** The payment's name among them. */
  readonly stateFile: string
  readonly rpcUrl: string | undefined
  readonly signal: AbortSignal
  readonly onStep: (text: string) => void
  /** About what was sent. */
  readonly warnings?: readonly string[]
  readonly deliver: ((report: PayReport) => Promise<void>) | undefined
}

/**
 * Decides what became of a payment that was sent: from the seller's answer, which may lie, and from the chain, which has
 * the last word. The payment's file is removed only when nothing can be gained from it any more.
 */
export async function conclude(conclusion: Conclusion): Promise<PayReport> {
  const { sent, payment, stateFile } = conclusion
  if (!sent.mayHaveLeft) {
    await forget(conclusion)
    return reportOf(
      conclusion,
      'failed',
      `The server could not be reached: ${sent.failure}. The payment was not sent.`,
      noCharge,
    )
  }
  const receipt: SellerReceipt = sent.answer === null ? { kind: 'none' } : readReceipt(sent.answer, payment)
  conclusion.onStep('Asking the chain.')
  const verdict = await askChain(conclusion, receipt)
  const { outcome, message } = judge(sent, receipt, verdict, payment)
  const isOver = outcome === 'paid' || verdict.charged === 'no'
  if (!isOver) {
    const what = verdict.charged === 'yes' ? nextOfCharged : next
    return { ...reportOf(conclusion, outcome, `${message} ${what}`, verdict), stateFile }
  }
  const report = reportOf(conclusion, outcome, message, verdict)
  if (outcome === 'paid') {
    try {
      await conclusion.deliver?.(report)
    } catch (error) {
      const lost = `The answer could not be written (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`
      return { ...report, message: `${message} ${lost} ${nextOfCharged}`, stateFile }
    }
  }
  await forget(conclusion)
  return report
}

/** Whatever becomes of it, a seller that takes money for nothing is not paid again unless somebody says so. */
const nextOfCharged =
  'The same command asks for the answer again and pays nothing, also tomorrow; --again buys anew.'
const next = 'The same command goes on with this payment; --again pays anew.'

/** What became of the payment is known by now, and not worse when its file stays. */
async function forget({ payments, stateFile, onStep }: Conclusion): Promise<void> {
  await payments.remove(stateFile).catch((error: NodeJS.ErrnoException) => {
    onStep(`The file ${stateFile} is of no use any more, and could not be removed (${error.code}). ${next}`)
  })
}

async function askChain(
  { sent, payment, signal, rpcUrl }: Conclusion,
  receipt: SellerReceipt,
): Promise<ReceiptVerdict> {
  const transaction = receipt.kind === 'settled' ? receipt.transaction : null
  const status = sent.answer?.status ?? 0
  const isRefusal = transaction === null && status >= 300 && status < 500
  const until = isRefusal ? AbortSignal.any([signal, AbortSignal.timeout(LOOK_AFTER_REFUSAL_MS)]) : signal
  return await verifyReceipt({ payment, transaction, signal: until }, rpcUrl)
}

const noCharge: ReceiptVerdict = { isVerified: false, charged: 'no', transaction: null, problem: '' }

function reportOf(
  conclusion: Conclusion,
  outcome: PayOutcome,
  message: string,
  verdict: ReceiptVerdict,
): PayReport {
  const { sent, url, summary, warnings = [] } = conclusion
  const report = reportWithoutPayment(outcome, message, url, sent.answer)
  return {
    ...report,
    warnings: [...warnings, ...report.warnings],
    payment: summary,
    isVerified: outcome !== 'unverified' && verdict.isVerified,
    charged: verdict.charged,
    transaction: verdict.transaction,
    attempts: sent.attempts,
  }
}

/** A report of a run that signed nothing, or the common part of the others. */
export function reportWithoutPayment(
  outcome: PayOutcome,
  message: string,
  url: string,
  answer: HttpAnswer | null,
): PayReport {
  const encoding = answer === null ? [] : valuesOf(answer.headers, 'content-encoding')
  const isCompressed = encoding.some((value) => value.toLowerCase() !== 'identity')
  return {
    outcome,
    message,
    url,
    payment: null,
    isVerified: false,
    charged: 'no',
    transaction: null,
    answer: answer && {
      status: answer.status,
      contentType: valuesOf(answer.headers, 'content-type')[0] ?? '',
      location: valuesOf(answer.headers, 'location')[0] ?? null,
      body: answer.body,
      isComplete: answer.isWhole && answer.isWithinLimit,
    },
    attempts: 0,
    stateFile: null,
    warnings: isCompressed
      ? ['The answer is compressed, though that was not asked for; it is kept as it came.']
      : [],
  }
}
