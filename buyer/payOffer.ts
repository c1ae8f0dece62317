import { randomUUID } from 'node:crypto'
import { formatAmount } from '../core/domain/money.ts'
import type { Offer } from '../core/x402/envelope.ts'
import { encodeHeader } from '../core/x402/header.ts'
import type { ChosenEntry } from '../core/x402/offerTerms.ts'
import {
  asRefusal,
  type Buyer,
  BuyerRefusal,
  type Order,
  type SignedPayment,
  UnpayableTerms,
} from './buyer.ts'
import { conclude, reportWithoutPayment } from './conclude.ts'
import { type Deadline, type HttpCall, startDeadline, within } from './httpCall.ts'
import {
  DEFAULT_MAX_USD,
  DEFAULT_TIMEOUT_MS,
  defaultRetryDelaysMs,
  type PayOptions,
  type PriceConfirmation,
  type SavedPayment,
} from './payOptions.ts'
import type { PaymentSummary, PayOutcome, PayReport } from './payReport.ts'
import { type Price, priceInUsd } from './readOffer.ts'
import { sendPayment } from './sendPayment.ts'
import { judgeSignedOffers } from './signedOffer.ts'

/** Maximum length of a payment header, in characters. Servers refuse a head above 16 KiB. */
export const MAX_PAYMENT_HEADER_CHARS = 15_000
/**
 * Maximum characters that a payload adds to the header. The longest payload is a Solana packet of 1,232 bytes, base64-encoded
 * twice.
 */
const PAYLOAD_CHARS = 2_400

/** The parts of a run that stay the same. */
export interface Run {
  readonly options: PayOptions
  /** The URL as the user gave it. */
  readonly url: URL
  readonly commandId: string
  readonly onStep: (text: string) => void
}

export const underWay =
  'Another run of this command is in progress, so this run signed nothing. Run the command again when the other run has ended, or make a new payment with --again.'

/** Signs one of the entries, stores the payment and sends it. */
export async function payOffer(
  run: Run,
  call: HttpCall,
  offer: Offer,
  entries: readonly ChosenEntry<Buyer>[],
  deadline: Deadline,
  mayGoOn: () => boolean,
): Promise<PayReport> {
  const { options, commandId, onStep } = run
  const { payments } = options
  let time = deadline
  let first: PayReport | undefined
  for (const chosen of entries) {
    const price = priceInUsd(chosen.terms, options.maxUsd ?? DEFAULT_MAX_USD)
    const summary = summaryOf(chosen, price, offer)
    const end = (outcome: PayOutcome, message: string): PayReport => ({
      ...reportWithoutPayment(outcome, message, call.url.href, null),
      payment: summary,
    })
    onStep(
      `Price: ${most(summary)}${summary.amount} ${summary.symbol} on ${summary.network} to ${summary.payTo}.`,
    )
    if (price.isAboveCap) {
      const isAgreed = await agree(options, summary, price, call.url)
      if (!isAgreed) return end('above_cap', aboveCapMessage(summary, options))
      // The user may have needed time to decide, so the next steps get a time limit of their own.
      time = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
    }
    if (headerOf(chosen, offer, {}).length + PAYLOAD_CHARS > MAX_PAYMENT_HEADER_CHARS)
      return end('refused', 'The offer is too long, so its payment could not be sent. Nothing was signed.')

    const { refusal, warning, signer } = await judgeSignedOffers(
      offer.signedOffers,
      chosen.entry,
      call.url,
      Date.now(),
    )
    if (refusal !== undefined) return end('refused', refusal)

    const signed = await sign(
      run,
      chosen,
      { url: call.url, resource: offer.resource, entry: chosen.entry },
      time,
    )
    if (signed instanceof UnpayableTerms) {
      first ??= end('refused', signed.message)
      onStep(`This offer cannot be paid: ${signed.message}`)
      continue
    }
    if (signed instanceof BuyerRefusal) return end(signed.outcome, signed.message)
    if (signed instanceof Error) return end('refused', unkept(signed))
    if (chosen.buyer.waitsForPerson === true)
      time = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
    const paymentHeader = headerOf(chosen, offer, signed.payload)
    const paidCall = withOwnKey(call)
    const stateFile = await storedAttempt(() =>
      payments.save(commandId, savedOf(paidCall, paymentHeader, signed, summary)),
    )
    if (stateFile instanceof Error) return end('refused', unkept(stateFile))
    await payments.dropOrderKey(commandId)
    if (!mayGoOn()) {
      await payments.remove(stateFile)
      return end('under_way', underWay)
    }
    onStep(`Signed. The payment is stored in ${stateFile} and sent now.`)

    const sent = await sendPayment(
      { ...paidCall, signal: time.calls },
      paymentHeader,
      signed,
      options.retryDelaysMs ?? defaultRetryDelaysMs,
      onStep,
    )
    return await conclude({
      url: call.url.href,
      summary,
      payment: signed,
      sent,
      payments,
      stateFile,
      rpcUrl: options.rpcUrl,
      signal: within(time.all, options.chainWaitMs),
      onStep,
      warnings: warning === undefined ? [] : [warning],
      offerSigner: signer,
      deliver: options.deliver,
    })
  }
  return first!
}

export function summaryOf({ terms, buyer }: ChosenEntry<Buyer>, price: Price, offer: Offer): PaymentSummary {
  const { scheme, asset, amountAtomic, payTo } = terms
  return {
    scheme,
    network: asset.network,
    symbol: asset.symbol,
    amount: formatAmount(amountAtomic, asset.decimals, 2),
    usd: price.usd,
    payTo,
    payer: buyer.address,
    description: offer.description.slice(0, 500),
  }
}

/** The beginning of an amount in a sentence. */
export const most = ({ scheme }: Pick<PaymentSummary, 'scheme'>): string =>
  scheme === 'upto' ? 'at most ' : ''

export async function agree(
  options: PayOptions,
  summary: PaymentSummary,
  price: Price,
  url: URL,
): Promise<boolean> {
  if (options.confirm === undefined) return false
  const { scheme, amount, symbol, network, payTo, usd } = summary
  const capUsd = options.maxUsd ?? DEFAULT_MAX_USD
  const question: PriceConfirmation = {
    scheme,
    usd,
    capUsd,
    amount,
    symbol,
    network,
    payTo,
    url: url.href,
    isWithinTenfold: price.isWithinTenfold,
  }
  return await options.confirm(question, options.signal)
}

export const aboveCapMessage = (summary: PaymentSummary, { maxUsd }: PayOptions): string =>
  `The price of ${most(summary)}${summary.usd} USD is above the cap of ${maxUsd ?? DEFAULT_MAX_USD} USD. Nothing was signed. --max raises the cap.`

/**
 * Signs the payment. If an external signer signs, the order is stored first, so that a later run continues with the same order if
 * this run is killed.
 */
async function sign(
  { options, commandId }: Run,
  { terms, buyer }: ChosenEntry<Buyer>,
  order: Order,
  time: Deadline,
): Promise<SignedPayment | BuyerRefusal | Error> {
  if (buyer.waitsForPerson !== true) return await buyer.sign(terms, time.calls, order).catch(asRefusal)
  const { payments, signal = new AbortController().signal } = options
  const isKept = options.again !== true
  const idempotencyKey = isKept
    ? await storedAttempt(() => payments.keepOrderKey(commandId, order))
    : undefined
  if (idempotencyKey instanceof Error) return idempotencyKey
  const signed = await buyer
    .sign(terms, signal, idempotencyKey === undefined ? order : { ...order, idempotencyKey })
    .catch(asRefusal)
  // If the vault became unavailable, it may have signed. The order's key then stays, so that the next run requests the same
  // payment.
  if (isKept && signed instanceof BuyerRefusal && signed.outcome !== 'vault_unavailable')
    await payments.dropOrderKey(commandId)
  return signed
}

/** Stores a payment. It is sent only if it was stored, so that it can be sent again after a crash. */
export async function storedAttempt(write: () => Promise<string>): Promise<string | Error> {
  try {
    return await write()
  } catch (error) {
    return new Error(codeOf(error))
  }
}

export const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? 'unknown'

export const unkept = ({ message }: Error): string =>
  `The payment could not be stored on disk (${message}), so it was not sent.`

export const headerOf = (
  { entry }: ChosenEntry<Buyer>,
  { resource, extensions }: Offer,
  payload: object,
): string => encodeHeader({ x402Version: 2, payload, resource, accepted: entry, extensions })

/**
 * Adds an Idempotency-Key to the call, unless the user's own headers contain one. A payment on chain is public. The key
 * distinguishes the buyer, who may request the response again from any address, from a stranger.
 */
function withOwnKey(call: HttpCall): HttpCall {
  const isGiven = call.headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'idempotency-key')
  return isGiven ? call : { ...call, headers: [...call.headers, 'Idempotency-Key', randomUUID()] }
}

export function savedOf(
  call: HttpCall,
  paymentHeader: string,
  payment: SignedPayment,
  summary: PaymentSummary,
): SavedPayment {
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
