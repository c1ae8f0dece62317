import { decodeStrictBase64 } from '../../core/x402/strictBase64.ts'
import { conclude } from './conclude.ts'
import { startDeadline, within } from './deadline.ts'
import { DEFAULT_MAX_BODY_BYTES, DEFAULT_RETRY_DELAYS_MS, DEFAULT_TIMEOUT_MS } from './payForUrl.ts'
import { loadPayment } from './paymentFile.ts'
import type { PayOptions } from './payOptions.ts'
import type { PayReport } from './payReport.ts'
import { sendPayment } from './sendPayment.ts'
import { readTarget } from './targetUrl.ts'
import { UsageError } from './usageError.ts'

const MAX_STORED_BODY_BYTES = 12_000_000

export type ResumeOptions = Pick<
  PayOptions,
  | 'rpcUrl'
  | 'timeoutMs'
  | 'chainWaitMs'
  | 'maxBodyBytes'
  | 'retryDelaysMs'
  | 'signal'
  | 'onStep'
  | 'allowInsecureHttp'
>

/**
 * Goes on with a payment that a former run signed and left open: sends the same payment again, so that the seller can
 * answer with what it bought, and asks the chain. It needs no key and signs nothing.
 *
 * @throws {UsageError} when the file is not one of ours or open to others
 */
export async function resumePayment(stateFile: string, options: ResumeOptions): Promise<PayReport> {
  const file = await loadPayment(stateFile)
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
    options.retryDelaysMs ?? DEFAULT_RETRY_DELAYS_MS,
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
    stateFile,
    rpcUrl,
    signal: within(deadline.all, options.chainWaitMs),
    onStep,
  })
}
