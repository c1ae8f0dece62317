import {
  type Buyer,
  BuyerRefusal,
  type Order,
  type SignedPayment,
} from '../../adapters/chains/buyer/buyer.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { type ChosenEntry, chooseEntry } from '../../core/x402/chooseEntry.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import type { Offer } from '../../core/x402/readEnvelope.ts'
import { conclude, reportWithoutPayment } from './conclude.ts'
import { type Deadline, startDeadline, within } from './deadline.ts'
import { callOnce, type HttpAnswer, type HttpCall, HttpFailure } from './httpCall.ts'
import { type PaymentFile, savePayment } from './paymentFile.ts'
import type { CapQuestion, PayOptions } from './payOptions.ts'
import type { PaymentSummary, PayOutcome, PayReport } from './payReport.ts'
import { type Price, priceInUsd } from './priceInUsd.ts'
import { readOffer } from './readOffer.ts'
import { sendPayment } from './sendPayment.ts'
import { readTarget } from './targetUrl.ts'
import { VaultRefusal } from './vaultRefusal.ts'
import { withoutOffer } from './withoutOffer.ts'

const DEFAULT_MAX_USD = '1.00'
export const DEFAULT_TIMEOUT_MS = 90_000
export const DEFAULT_MAX_BODY_BYTES = 1_000_000
export const DEFAULT_RETRY_DELAYS_MS: readonly number[] = [1_000, 2_000, 4_000]
/** Longest payment header: servers refuse a head above 16 KiB. */
const MAX_PAYMENT_HEADER_CHARS = 15_000
/** What a payload adds to it, at most: a Solana packet of 1,232 bytes in base64 twice over. */
const PAYLOAD_CHARS = 2_400

/**
 * Calls an address and, when it costs money, pays for it once: reads the 402, refuses what it does not understand exactly,
 * signs at most one payment, keeps it on disk before sending it, repeats that same payment while the outcome is open, and
 * believes a receipt only when the chain confirms it.
 *
 * @example
 * const wallets = { eip155: createEvmBuyer({ privateKey }) }
 * const report = await payForUrl({ url: 'https://example.com/api/link/demo/hello', wallets, stateDir })
 * if (report.outcome === 'paid') use(report.answer!.body)
 *
 * @returns a report in every case that the world can bring about; exit codes in exitCodes.ts
 * @throws {UsageError} the options are wrong; nothing was asked
 */
export async function payForUrl(options: PayOptions): Promise<PayReport> {
  const url = readTarget(options.url, options.allowInsecureHttp ?? false)
  const onStep = options.onStep ?? (() => {})
  let deadline = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  const call = callOf(options, url, deadline)
  const end = (outcome: PayOutcome, message: string, answer: HttpAnswer | null = null) =>
    reportWithoutPayment(outcome, message, url.href, answer)

  const first = await ask(call)
  if (first instanceof HttpFailure) return end('failed', `The server could not be asked: ${first.message}.`)
  const early = withoutOffer(first)
  if (early !== undefined) return end(early.outcome, early.message, first)
  const read = readOffer(first, url)
  if (!read.ok) return end('refused', `The offer was refused: ${read.message}. Nothing was signed.`)
  const choice = chooseEntry(read.offer.accepts, options.wallets, options.network)
  if (!choice.ok) return end('refused', `The offer was refused: ${choice.message}. Nothing was signed.`)

  const { chosen } = choice
  const price = priceInUsd(chosen.terms, options.maxUsd ?? DEFAULT_MAX_USD)
  const summary = summaryOf(chosen, price, read.offer)
  onStep(`Price: ${summary.amount} ${summary.symbol} on ${summary.network} to ${summary.payTo}.`)
  if (price.isAboveCap) {
    const isAgreed = await agree(options, summary, price)
    if (!isAgreed) return { ...end('above_cap', aboveCapMessage(summary, options)), payment: summary }
    // The user may have thought for a while; what follows has its own time.
    deadline = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  }

  if (headerOf(chosen, read.offer, {}).length + PAYLOAD_CHARS > MAX_PAYMENT_HEADER_CHARS) {
    const message = 'The offer is so long that its payment could not be sent; nothing was signed.'
    return { ...end('refused', message), payment: summary }
  }
  const asksAPerson = chosen.buyer.asksAPerson === true
  const until = asksAPerson ? (options.signal ?? new AbortController().signal) : deadline.calls
  const signed = await sign(chosen, { url, resource: read.offer.resource, entry: chosen.entry }, until)
  if (signed instanceof BuyerRefusal) {
    const outcome = signed instanceof VaultRefusal ? signed.outcome : 'refused'
    return { ...end(outcome, signed.message), payment: summary }
  }
  if (asksAPerson) deadline = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  const paymentHeader = headerOf(chosen, read.offer, signed.payload)
  const stateFile = await keep(options.stateDir, fileOf(call, paymentHeader, signed, summary))
  if (stateFile instanceof Error) {
    const message = `The payment could not be kept on disk (${stateFile.message}), so it was not sent.`
    return { ...end('refused', message), payment: summary }
  }
  onStep(`Signed. Kept in ${stateFile}; sending.`)

  const sent = await sendPayment(
    { ...call, signal: deadline.calls },
    paymentHeader,
    signed,
    options.retryDelaysMs ?? DEFAULT_RETRY_DELAYS_MS,
    onStep,
  )
  const { rpcUrl } = options
  return await conclude({
    url: url.href,
    summary,
    payment: signed,
    sent,
    stateFile,
    rpcUrl,
    signal: within(deadline.all, options.chainWaitMs),
    onStep,
  })
}

function callOf(options: PayOptions, url: URL, deadline: Deadline): HttpCall {
  return {
    url,
    method: options.method ?? 'GET',
    headers: options.headers ?? [],
    body: options.body,
    maxBodyBytes: options.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES,
    signal: deadline.calls,
  }
}

async function ask(call: HttpCall): Promise<HttpAnswer | HttpFailure> {
  try {
    return await callOnce(call)
  } catch (error) {
    if (error instanceof HttpFailure) return error
    throw error
  }
}

function summaryOf({ terms, buyer }: ChosenEntry<Buyer>, price: Price, offer: Offer): PaymentSummary {
  const { asset, amountAtomic, payTo } = terms
  return {
    network: asset.network,
    symbol: asset.symbol,
    amount: formatAmount(amountAtomic, asset.decimals, 2),
    usd: price.usd,
    payTo,
    payer: buyer.address,
    description: offer.description.slice(0, 500),
  }
}

async function agree(options: PayOptions, summary: PaymentSummary, price: Price): Promise<boolean> {
  if (options.confirm === undefined) return false
  const { amount, symbol, network, payTo, usd } = summary
  const capUsd = options.maxUsd ?? DEFAULT_MAX_USD
  const question: CapQuestion = {
    usd,
    capUsd,
    amount,
    symbol,
    network,
    payTo,
    isWithinTenfold: price.isWithinTenfold,
  }
  return await options.confirm(question, options.signal)
}

const aboveCapMessage = ({ usd }: PaymentSummary, { maxUsd }: PayOptions): string =>
  `The price of ${usd} USD is above the cap of ${maxUsd ?? DEFAULT_MAX_USD} USD; nothing was signed. --max raises the cap.`

async function sign(
  { terms, buyer }: ChosenEntry<Buyer>,
  order: Order,
  signal: AbortSignal,
): Promise<SignedPayment | BuyerRefusal> {
  try {
    return await buyer.sign(terms, signal, order)
  } catch (error) {
    if (error instanceof BuyerRefusal) return error
    throw error
  }
}

/** Nothing is sent that could not be sent again after a crash. */
async function keep(dir: string, file: PaymentFile): Promise<string | Error> {
  try {
    return await savePayment(dir, file)
  } catch (error) {
    return new Error((error as NodeJS.ErrnoException).code ?? 'unknown')
  }
}

const headerOf = ({ entry }: ChosenEntry<Buyer>, { resource }: Offer, payload: object): string =>
  encodeHeader({ x402Version: 2, payload, resource, accepted: entry })

function fileOf(
  call: HttpCall,
  paymentHeader: string,
  payment: SignedPayment,
  summary: PaymentSummary,
): PaymentFile {
  return {
    tollgatePayment: 1,
    createdAt: new Date().toISOString(),
    url: call.url.href,
    method: call.method,
    headers: call.headers,
    body: call.body === undefined ? null : Buffer.from(call.body).toString('base64'),
    paymentHeader,
    payment,
    summary,
  }
}
