import { setTimeout as wait } from 'node:timers/promises'
import { builtInAssets } from '../../core/domain/asset.ts'
import { formatAmount } from '../../core/domain/money.ts'
import type { SignedPayment } from '../buyer.ts'
import { reportWithoutPayment } from '../conclude.ts'
import type { HttpResponse } from '../httpCall.ts'
import type { PayOptions } from '../payOptions.ts'
import type { ChannelSummary, Charged, PaymentSummary, PayOutcome, PayReport } from '../payReport.ts'
import type { Sent } from '../sendPayment.ts'
import { type ChannelRecord, signedIn } from './channelRecord.ts'
import { readChannelReceipt, reasonIn } from './channelResponse.ts'
import { ChannelReader, type DepositFate } from './channelState.ts'

const POLL_MS = 500

export interface CallConclusion {
  readonly url: string
  readonly summary: PaymentSummary
  readonly payment: SignedPayment
  readonly sent: Sent
  readonly record: ChannelRecord
  readonly options: Pick<PayOptions, 'payments' | 'rpcUrl' | 'deliver'>
  /** Name of the stored payment. */
  readonly stateFile: string
  readonly signal: AbortSignal
  readonly warnings: readonly string[]
}

/**
 * Decides the outcome of a call that a channel was to pay. The record counts only what the seller's receipt shows within the voucher,
 * so a seller that says nothing or too much gains nothing: the next voucher continues the known total.
 */
export async function concludeCall(conclusion: CallConclusion): Promise<PayReport> {
  const { sent, payment, options, stateFile, signal, url, summary, warnings } = conclusion
  const { payments, deliver } = options
  const voucher = signedIn(payment)
  const { response } = sent
  const priceAtomic = BigInt(payment.amount)
  const receipt = response === null ? none : readChannelReceipt(response, voucher, priceAtomic)
  let { record } = conclusion
  // Later calls may have been charged before this one was resumed.
  if (receipt.kind === 'charged' && receipt.total > BigInt(record.charged))
    record = { ...record, charged: String(receipt.total) }
  const fate = await depositFate(conclusion)
  await payments.saveChannel(record)
  const isVerified = receipt.kind === 'charged' && (fate === null || fate === 'used')
  const { outcome, message, isOver } = judge(conclusion, receipt, isVerified, priceAtomic)
  const charged = receipt.kind === 'charged'
  const report: PayReport = {
    ...reportWithoutPayment(outcome, message, url, response),
    payment: summary,
    isVerified,
    charged: charged ? 'yes' : (uncharged[outcome] ?? 'unknown'),
    chargedAmount: charged ? inUnits(receipt.amount, payment) : null,
    transaction: charged && fate === 'used' ? receipt.transaction : null,
    channel: await summaryOf(record, payment, options.rpcUrl, signal),
    attempts: sent.attempts,
    stateFile: isOver ? null : stateFile,
    warnings,
  }
  if (!isOver) return report
  if (outcome === 'paid') {
    try {
      await deliver?.(report)
    } catch (error) {
      const lost = `The response could not be written (${(error as NodeJS.ErrnoException).code ?? 'unknown'}). Run the same command again soon to get it without paying again.`
      return { ...report, message: `${message} ${lost}`, stateFile }
    }
  }
  await payments.remove(stateFile)
  return report
}

/** Whether money has moved after an outcome without a charge. A rejected voucher stays with the seller. */
const uncharged: Partial<Record<PayOutcome, Charged>> = { failed: 'no', rejected: 'not_yet' }

const none = { kind: 'none' } as const

/** What came of the voucher's deposit. Null if it has none. Waits for the deposit's block if the seller has charged the call. */
async function depositFate({
  payment,
  sent,
  options,
  signal,
}: CallConclusion): Promise<DepositFate | 'open' | null> {
  const voucher = signedIn(payment)
  if (voucher.deposit === null) return null
  const isServed = sent.response !== null && isSuccess(sent.response)
  for (;;) {
    const reader = new ChannelReader(payment.network, options.rpcUrl, signal)
    const fate = await reader.depositFate(voucher).catch(() => 'open' as const)
    if (fate !== 'open' || !isServed || signal.aborted) return fate
    await wait(POLL_MS, undefined, { signal }).catch(() => undefined)
  }
}

const isSuccess = ({ status }: HttpResponse): boolean => status >= 200 && status < 300

interface Judgement {
  readonly outcome: PayOutcome
  readonly message: string
  /** Whether the stored payment has no further use. */
  readonly isOver: boolean
}

function judge(
  { sent, payment }: CallConclusion,
  receipt: ReturnType<typeof readChannelReceipt>,
  isVerified: boolean,
  priceAtomic: bigint,
): Judgement {
  const { response, failure } = sent
  const again = 'The same command continues with this voucher. --again makes a new payment.'
  if (!sent.mayHaveLeft) {
    const message = `The server could not be reached: ${failure}. The voucher was not sent.`
    return { outcome: 'failed', message, isOver: true }
  }
  if (response === null || (!isSuccess(response) && response.status >= 500)) {
    const what =
      response === null ? `No response came (${failure})` : `The seller responded with ${response.status}`
    return {
      outcome: 'unknown',
      message: `${what}. The channel may have been charged. ${again}`,
      isOver: false,
    }
  }
  if (!isSuccess(response)) {
    const message = `The seller responded with ${response.status}${reasonIn(response)}. You have not been charged so far. The next call of the channel signs the same total.`
    return { outcome: 'rejected', message, isOver: true }
  }
  if (!isVerified) {
    const problem = {
      none: 'the response has no receipt',
      wrong: receipt.kind === 'wrong' ? receipt.problem : '',
      charged: 'the chain does not show the deposit',
    }[receipt.kind]
    const most = inUnits(priceAtomic, payment)
    return {
      outcome: 'unverified',
      message: `Paid but not verified: ${problem}. The voucher allows the seller to charge ${most} for this call.`,
      isOver: true,
    }
  }
  if (!response.isWhole || !response.isWithinLimit)
    return {
      outcome: 'bad_response',
      message: `Paid, but the response is incomplete. ${again}`,
      isOver: false,
    }
  return { outcome: 'paid', message: 'Paid by the payment channel.', isOver: true }
}

/** An amount of the payment's token in whole units. */
export function inUnits(
  amount: bigint,
  { network, asset }: Pick<SignedPayment, 'network' | 'asset'>,
): string {
  const known = builtInAssets.find((one) => one.network === network && one.address === asset)!
  return formatAmount(amount, known.decimals, 2)
}

/** What is left in a channel. Null if the chain cannot be read. */
export async function summaryOf(
  record: ChannelRecord,
  token: Pick<SignedPayment, 'network' | 'asset'>,
  rpcUrl: string | undefined,
  signal: AbortSignal,
): Promise<ChannelSummary | null> {
  try {
    const { balance } = await new ChannelReader(record.network, rpcUrl, signal).state(record.id)
    const left = balance - BigInt(record.charged)
    return {
      id: record.id,
      left: inUnits(left > 0n ? left : 0n, token),
      withdrawDelaySeconds: signedIn(record).config.withdrawDelay,
    }
  } catch {
    return null
  }
}
