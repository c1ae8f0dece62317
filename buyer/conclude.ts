import { builtInAssets } from '../core/domain/asset.ts'
import { formatAmount } from '../core/domain/money.ts'
import type { ReceiptVerdict, SignedPayment } from './buyer.ts'
import { verifyReceipt } from './chains/receipt.ts'
import { type HttpResponse, valuesOf } from './httpCall.ts'
import type { SavedPayments } from './payOptions.ts'
import type { PaymentSummary, PayOutcome, PayReport } from './payReport.ts'
import { readReceipt, type SellerReceipt, type Sent } from './sendPayment.ts'
import { readSignedReceipt } from './signedOffer.ts'

/** How long the chain is polled after a rejection, in ms. Two checks suffice, because the payment is not expected to land. */
const CHECK_AFTER_REFUSAL_MS = 2_000

export interface Conclusion {
  readonly url: string
  readonly summary: PaymentSummary
  readonly payment: SignedPayment
  readonly sent: Sent
  readonly payments: SavedPayments
  /** Name of the stored payment. */
  readonly stateFile: string
  readonly rpcUrl: string | undefined
  readonly signal: AbortSignal
  readonly onStep: (text: string) => void
  /** Warnings about what was sent. */
  readonly warnings?: readonly string[]
  /** The address that has signed the paid offer. Absent if it is not known. */
  readonly offerSigner?: string | undefined
  readonly deliver: ((report: PayReport) => Promise<void>) | undefined
}

/**
 * Decides the outcome of a payment that was sent. The seller's response may be false, so the chain decides. The payment file is
 * removed only if it has no further use.
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
  const receipt: SellerReceipt =
    sent.response === null ? { kind: 'none' } : readReceipt(sent.response, payment)
  conclusion.onStep('Checking the payment on chain.')
  const verdict = await readChain(conclusion, receipt)
  const { outcome, message } = judge(sent, receipt, verdict, payment)
  const isOver = outcome === 'paid' || verdict.charged === 'no'
  if (!isOver) {
    const what = verdict.charged === 'yes' ? nextOfCharged : next
    return { ...reportOf(conclusion, outcome, `${message} ${what}`, verdict), stateFile }
  }
  const report = await withSignedReceipt(conclusion, reportOf(conclusion, outcome, message, verdict))
  if (outcome === 'paid') {
    try {
      await conclusion.deliver?.(report)
    } catch (error) {
      const lost = `The response could not be written (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`
      return { ...report, message: `${message} ${lost} ${nextOfCharged}`, stateFile }
    }
  }
  await forget(conclusion)
  return report
}

async function withSignedReceipt(
  { sent: { response }, payment, url, offerSigner }: Conclusion,
  report: PayReport,
): Promise<PayReport> {
  if (response === null || report.outcome !== 'paid') return report
  const { transaction, warnings } = report
  const read = await readSignedReceipt(response, payment, transaction, new URL(url), offerSigner)
  return {
    ...report,
    signedReceipt: read.receipt ?? null,
    warnings: read.warning === undefined ? warnings : [...warnings, read.warning],
  }
}

/** The seller has charged without delivering. The buyer pays such a seller again only if the user requests it. */
const nextOfCharged =
  'Run the same command again soon to request the response without paying again. The seller may keep the response only for a short time. --again pays a second time.'
const next = 'The same command continues with this payment. --again makes a new payment.'

/** Removes the payment file. A failure does not change the outcome, which is already known. */
async function forget({ payments, stateFile, onStep }: Conclusion): Promise<void> {
  await payments.remove(stateFile).catch((error: NodeJS.ErrnoException) => {
    onStep(`The file ${stateFile} is no longer needed but could not be removed (${error.code}). ${next}`)
  })
}

async function readChain(
  { sent, payment, signal, rpcUrl }: Conclusion,
  receipt: SellerReceipt,
): Promise<ReceiptVerdict> {
  const { transaction, amount } = receipt.kind === 'settled' ? receipt : nothingNamed
  // A seller that charges nothing sends no transaction.
  const isFree = transaction === '' && amount === '0'
  const status = sent.response?.status ?? 0
  const isRefusal = transaction === null && status >= 300 && status < 500
  const until = isRefusal ? AbortSignal.any([signal, AbortSignal.timeout(CHECK_AFTER_REFUSAL_MS)]) : signal
  const query = { payment, transaction: isFree ? null : transaction, amount, signal: until }
  return await verifyReceipt(query, rpcUrl)
}

const nothingNamed = { transaction: null, amount: null }

const noCharge: ReceiptVerdict = {
  isVerified: false,
  charged: 'no',
  chargedAmount: null,
  transaction: null,
  problem: '',
}

function reportOf(
  conclusion: Conclusion,
  outcome: PayOutcome,
  message: string,
  verdict: ReceiptVerdict,
): PayReport {
  const { sent, url, summary, payment, warnings = [] } = conclusion
  const report = reportWithoutPayment(outcome, message, url, sent.response)
  return {
    ...report,
    warnings: [...warnings, ...report.warnings],
    payment: summary,
    isVerified: outcome !== 'unverified' && verdict.isVerified,
    charged: verdict.charged,
    chargedAmount: verdict.chargedAmount === null ? null : wholeUnits(verdict.chargedAmount, payment),
    transaction: verdict.transaction,
    attempts: sent.attempts,
  }
}

function wholeUnits(amount: string, { network, asset: address }: SignedPayment): string {
  const asset = builtInAssets.find((one) => one.network === network && one.address === address)!
  return formatAmount(BigInt(amount), asset.decimals, 2)
}

/** The report of a run that has signed nothing. Other reports begin with the same fields. */
export function reportWithoutPayment(
  outcome: PayOutcome,
  message: string,
  url: string,
  response: HttpResponse | null,
): PayReport {
  const encoding = response === null ? [] : valuesOf(response.headers, 'content-encoding')
  const isCompressed = encoding.some((value) => value.toLowerCase() !== 'identity')
  return {
    outcome,
    message,
    url,
    payment: null,
    isVerified: false,
    charged: 'no',
    chargedAmount: null,
    transaction: null,
    channel: null,
    response: response && {
      status: response.status,
      contentType: valuesOf(response.headers, 'content-type')[0] ?? '',
      location: valuesOf(response.headers, 'location')[0] ?? null,
      body: response.body,
      isComplete: response.isWhole && response.isWithinLimit,
    },
    attempts: 0,
    stateFile: null,
    signedReceipt: null,
    warnings: isCompressed
      ? ['The response is compressed although the request did not allow it. The response is kept unchanged.']
      : [],
  }
}

interface Judgement {
  readonly outcome: PayOutcome
  readonly message: string
}

/**
 * The outcome of a payment that was sent, as a word and a sentence. The seller's response shows what was bought, and the chain
 * shows whether it was paid. If the two contradict each other, the chain is right.
 */
function judge(
  sent: Sent,
  receipt: SellerReceipt,
  verdict: ReceiptVerdict,
  payment: SignedPayment,
): Judgement {
  const { response } = sent
  if (response !== null && isDelivery(response, receipt))
    return judgeSuccess(response, receipt, verdict, payment)
  const reason = receipt.kind === 'not_settled' && receipt.reason !== '' ? ` (${receipt.reason})` : ''
  const report =
    response === null
      ? `No response came (${sent.failure})`
      : `The seller responded with ${response.status}${reason}`
  const until = new Date(payment.validBeforeMs).toISOString()
  // Permit2 may have lost its allowance after the buyer checked it.
  const step =
    response?.status === 412 && payment.payload['permit2Authorization'] !== undefined ? allowFirst : ''
  if (verdict.charged === 'yes') {
    return {
      outcome: 'bad_response',
      message: `You were charged, but there is no successful response. ${report}.`,
    }
  }
  if (verdict.charged === 'no') {
    return {
      outcome: 'rejected',
      message: `${report}. You were not charged, and the payment can no longer be used.`,
    }
  }
  if (verdict.charged === 'not_yet' && response !== null && response.status < 500) {
    return {
      outcome: 'rejected',
      message: `${report}. You have not been charged so far. The payment can be used until ${until}.${step}`,
    }
  }
  return {
    outcome: 'unknown',
    message: `${report}, and ${verdict.problem}. The payment can be used until ${until}.`,
  }
}

const allowFirst =
  " The seller says that Permit2 may not move enough of your tokens. Call the token's approve for Permit2 from your wallet, then run the same command again."

/**
 * Whether a response delivers the purchase. Some sellers sell a URL, and respond to a payment with a redirect to it. A redirect
 * counts only with a receipt, because without one it may lead anywhere.
 */
function isDelivery({ status, headers }: HttpResponse, receipt: SellerReceipt): boolean {
  if (status >= 200 && status < 300) return true
  return status < 400 && receipt.kind === 'settled' && valuesOf(headers, 'location').length === 1
}

function judgeSuccess(
  response: HttpResponse,
  receipt: SellerReceipt,
  verdict: ReceiptVerdict,
  payment: SignedPayment,
): Judgement {
  const problem =
    receipt.kind === 'wrong'
      ? receipt.problem
      : receipt.kind === 'not_settled'
        ? `the seller responded, but says that it did not settle (${receipt.reason})`
        : verdict.problem
  if (!verdict.isVerified || receipt.kind === 'wrong' || receipt.kind === 'not_settled') {
    const charged = {
      yes: 'You were charged.',
      no: 'You were not charged.',
      not_yet: 'You have not been charged so far.',
    }
    const known =
      verdict.charged === 'unknown' ? 'Whether you were charged is unknown.' : charged[verdict.charged]
    return { outcome: 'unverified', message: `Paid but not verified: ${problem}. ${known}` }
  }
  if (verdict.chargedAmount === '0') return judgeNoCharge(response, payment)
  if (!response.isWhole) return { outcome: 'bad_response', message: 'Paid, but the response broke off.' }
  if (!response.isWithinLimit) {
    return {
      outcome: 'bad_response',
      message: 'Paid, but the response is longer than the limit. Only its beginning was kept.',
    }
  }
  if (response.status >= 300)
    return {
      outcome: 'paid',
      message: 'Paid, and the chain confirms the payment. What you bought is at the address below.',
    }
  return { outcome: 'paid', message: 'Paid, and the chain confirms the payment.' }
}

/** The outcome of a call for which the seller charged nothing of what the buyer signed. */
function judgeNoCharge(response: HttpResponse, { validBeforeMs }: SignedPayment): Judgement {
  const until = `The seller charged nothing so far. It can use the payment until ${new Date(validBeforeMs).toISOString()}.`
  if (response.isWhole && response.isWithinLimit) return { outcome: 'paid', message: until }
  return { outcome: 'bad_response', message: `The response is incomplete. ${until}` }
}
