import { isDeepStrictEqual } from 'node:util'
import { channelScheme } from '../core/domain/channel.ts'
import { decodeStrictBase64 } from '../core/x402/header.ts'
import { UsageError } from './buyer.ts'
import { verifyReceipt } from './chains/receipt.ts'
import { resumeByChannel } from './channels/resumedCall.ts'
import { conclude } from './conclude.ts'
import { readTarget, startDeadline, within } from './httpCall.ts'
import {
  DEFAULT_MAX_BODY_BYTES,
  DEFAULT_TIMEOUT_MS,
  defaultRetryDelaysMs,
  type PayOptions,
  type SavedPayment,
} from './payOptions.ts'
import type { PayReport } from './payReport.ts'
import { sendPayment } from './sendPayment.ts'

const MAX_STORED_BODY_BYTES = 12_000_000
/** How long the chain is polled about an expired payment, in ms. The chain's clock may be behind this machine's. */
const CHECK_MS = 2_000

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
  /** Headers of the resuming command. If they differ from the stored headers, which are sent, the report has a warning. */
  readonly headers?: readonly string[]
}

/**
 * Resumes a payment that an earlier run signed and left open. It sends the same payment again, so that the seller can deliver the
 * purchase, and checks the chain. It needs no key and signs nothing.
 *
 * @throws {UsageError} if the file is not a payment file, or other users of the machine can read it
 */
export async function resumePayment(stateFile: string, options: ResumeOptions): Promise<PayReport> {
  return await resume(stateFile, await options.payments.load(stateFile), options)
}

/**
 * Resumes the payments that earlier runs of a command left open, instead of signing another payment. If a payment can no longer
 * land by the chain, it is removed, so that a new payment may be signed.
 *
 * @returns undefined if none is left, so that a new payment may be signed
 * @throws {UsageError} if a file of the command cannot be read, because its payment may have been used
 */
export async function resumeCommand(
  stateFiles: readonly string[],
  options: ResumeOptions,
): Promise<PayReport | undefined> {
  for (const stateFile of stateFiles) {
    const file = await options.payments.load(stateFile).catch((error: Error) => {
      const step =
        'An earlier run of this command stored this file. Move the file away when you know the outcome of the payment, or make a new payment with --again.'
      throw error instanceof UsageError ? new UsageError(`${error.message} ${step}`) : error
    })
    if (await isVoid(file, options)) {
      await options.payments.remove(stateFile)
      continue
    }
    const report = await resume(stateFile, file, options)
    // A rejected payment whose file is gone has no further use.
    if (report.outcome !== 'rejected' || report.stateFile !== null) return report
  }
  return undefined
}

/** Whether a payment has expired and was not used on chain. */
async function isVoid({ payment }: SavedPayment, { rpcUrl, signal }: ResumeOptions): Promise<boolean> {
  if (payment.validBeforeMs > Date.now()) return false
  const timeoutSignal = within(signal ?? new AbortController().signal, CHECK_MS)
  return (await verifyReceipt({ payment, transaction: null, signal: timeoutSignal }, rpcUrl)).charged === 'no'
}

async function resume(stateFile: string, file: SavedPayment, options: ResumeOptions): Promise<PayReport> {
  const url = readTarget(file.url, options.allowInsecureHttp ?? false)
  const body = file.body === null ? undefined : decodeStrictBase64(file.body, MAX_STORED_BODY_BYTES)
  if (file.body !== null && body === undefined)
    throw new UsageError("The payment file's body is not readable.")
  const deadline = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  const onStep = options.onStep ?? (() => {})
  const { summary, payment } = file
  const send = async () => {
    onStep(`Sending the payment of ${file.createdAt} again.`)
    const call = {
      url,
      method: file.method,
      headers: file.headers,
      body,
      maxBodyBytes: options.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES,
      signal: deadline.calls,
    }
    const delaysMs = options.retryDelaysMs ?? defaultRetryDelaysMs
    return await sendPayment(call, file.paymentHeader, payment, delaysMs, onStep)
  }
  if (payment.scheme === channelScheme)
    return await resumeByChannel(file, { send, stateFile, options, deadline })
  // The earlier run may have reached the server, even if this run does not.
  const known = { ...(await send()), mayHaveLeft: true }
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

/** Whether the user's headers are the same. The payment's own key, which follows them, does not count. */
const isSameHead = (now: readonly string[] | undefined, then: readonly string[]): boolean =>
  now === undefined ||
  isDeepStrictEqual(now, then) ||
  (then.at(-2) === 'Idempotency-Key' && isDeepStrictEqual(now, then.slice(0, -2)))

/** The warning about different headers. Headers may identify the caller, so the response may be for another caller. */
const otherHeaders = ({ createdAt }: SavedPayment): string =>
  `The call of ${createdAt} was resumed with its own headers, which differ from those of this command. --again pays for a call with the new headers.`
