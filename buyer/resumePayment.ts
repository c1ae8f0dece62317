import { isDeepStrictEqual } from 'node:util'
import { decodeStrictBase64 } from '../core/x402/header.ts'
import { verifyReceipt } from './chains/verifyReceipt.ts'
import { conclude } from './conclude.ts'
import { startDeadline, within } from './deadline.ts'
import type { KeptPayment } from './keptPayments.ts'
import {
  DEFAULT_MAX_BODY_BYTES,
  DEFAULT_TIMEOUT_MS,
  defaultRetryDelaysMs,
  type PayOptions,
} from './payOptions.ts'
import type { PayReport } from './payReport.ts'
import { sendPayment } from './sendPayment.ts'
import { readTarget } from './targetUrl.ts'
import { UsageError } from './usageError.ts'

const MAX_STORED_BODY_BYTES = 12_000_000
/** How long the chain is asked about a payment whose time is over, in ms; its clock may be behind ours. */
const LOOK_MS = 2_000

export type ResumeOptions = Pick<
  PayOptions,
  | 'payments'
  | 'rpcUrl'
  | 'timeoutMs'
  | 'chainWaitMs'
  | 'maxBodyBytes'
  | 'retryDelaysMs'
  | 'signal'
  | 'onStep'
  | 'allowInsecureHttp'
  | 'deliver'
> & {
  /** Those of the command that goes on; a warning tells when they are not those that are sent. */
  readonly headers?: readonly string[]
}

/**
 * Goes on with a payment that a former run signed and left open: sends the same payment again, so that the seller can
 * answer with what it bought, and asks the chain. It needs no key and signs nothing.
 *
 * @throws {UsageError} when the file is not one of ours or open to others
 */
export async function resumePayment(stateFile: string, options: ResumeOptions): Promise<PayReport> {
  return await resume(stateFile, await options.payments.load(stateFile), options)
}

/**
 * Goes on with the payments that former runs of a command left open, instead of signing another. One that can not land any
 * more, by the word of the chain, is removed and frees the way.
 *
 * @returns undefined when there is none (any more), and a new payment may be signed
 * @throws {UsageError} when a file of the command can not be read: what it holds may have been paid
 */
export async function resumeCommand(
  stateFiles: readonly string[],
  options: ResumeOptions,
): Promise<PayReport | undefined> {
  for (const stateFile of stateFiles) {
    const file = await options.payments.load(stateFile).catch((error: Error) => {
      const way =
        'A former run of this command kept it. Move it away when you know what became of it, or pay anew with --again.'
      throw error instanceof UsageError ? new UsageError(`${error.message} ${way}`) : error
    })
    if (await isVoid(file, options)) {
      await options.payments.remove(stateFile)
      continue
    }
    const report = await resume(stateFile, file, options)
    if (report.outcome !== 'rejected' || report.charged !== 'no') return report
  }
  return undefined
}

/** Whether the time of a payment is over, and the chain says that it was not used. */
async function isVoid({ payment }: KeptPayment, { rpcUrl, signal }: ResumeOptions): Promise<boolean> {
  if (payment.validBeforeMs > Date.now()) return false
  const look = within(signal ?? new AbortController().signal, LOOK_MS)
  return (await verifyReceipt({ payment, transaction: null, signal: look }, rpcUrl)).charged === 'no'
}

async function resume(stateFile: string, file: KeptPayment, options: ResumeOptions): Promise<PayReport> {
  const url = readTarget(file.url, options.allowInsecureHttp ?? false)
  const body = file.body === null ? undefined : decodeStrictBase64(file.body, MAX_STORED_BODY_BYTES)
  if (file.body !== null && body === undefined)
    throw new UsageError("The payment file's body is not readable.")
  const deadline = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  const onStep = options.onStep ?? (() => {})
  onStep(`Sending the payment of ${file.createdAt} again.`)
  const sent = await sendPayment(
    {
      url,
      method: file.method,
      headers: file.headers,
      body,
      maxBodyBytes: options.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES,
      signal: deadline.calls,
    },
    file.paymentHeader,
    file.payment,
    options.retryDelaysMs ?? defaultRetryDelaysMs,
    onStep,
  )
  const { summary, payment } = file
  // The former run may have reached the server, whatever this one did.
  const known = { ...sent, mayHaveLeft: true }
  const { rpcUrl } = options
  return await conclude({
    url: url.href,
    summary,
    payment,
    sent: known,
    payments: options.payments,
    stateFile,
    rpcUrl,
    signal: within(deadline.all, options.chainWaitMs),
    onStep,
    deliver: options.deliver,
    warnings: isSameHead(options.headers, file.headers) ? [] : [otherHeaders(file)],
  })
}

/** The key that was sent with it is no header of the user's, and stands behind them. */
const isSameHead = (now: readonly string[] | undefined, then: readonly string[]): boolean =>
  now === undefined ||
  isDeepStrictEqual(now, then) ||
  (then.at(-2) === 'Idempotency-Key' && isDeepStrictEqual(now, then.slice(0, -2)))

/** The answer may be another one, or somebody else's: a header may say who is asking. */
const otherHeaders = ({ createdAt }: KeptPayment): string =>
  `The call of ${createdAt} was gone on with, and its headers were others than those of this command; --again pays for a call with these.`
