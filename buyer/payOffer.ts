import { randomUUID } from 'node:crypto'
import { formatAmount } from '../core/domain/money.ts'
import type { ChosenEntry } from '../core/x402/chooseEntry.ts'
import { encodeHeader } from '../core/x402/header.ts'
import type { Offer } from '../core/x402/readEnvelope.ts'
import {
  asRefusal,
  type Buyer,
  BuyerRefusal,
  type Order,
  type SignedPayment,
  UnpayableTerms,
} from './buyer.ts'
import { conclude, reportWithoutPayment } from './conclude.ts'
import { type Deadline, startDeadline, within } from './deadline.ts'
import type { HttpCall } from './httpCall.ts'
import type { KeptPayment } from './keptPayments.ts'
import {
  type CapQuestion,
  DEFAULT_MAX_USD,
  DEFAULT_TIMEOUT_MS,
  defaultRetryDelaysMs,
  type PayOptions,
} from './payOptions.ts'
import type { PaymentSummary, PayOutcome, PayReport } from './payReport.ts'
import { type Price, priceInUsd } from './priceInUsd.ts'
import { sendPayment } from './sendPayment.ts'

/** Longest payment header: servers refuse a head above 16 KiB. */
const MAX_PAYMENT_HEADER_CHARS = 15_000
/** What a payload adds to it, at most: a Solana packet of 1,232 bytes in base64 twice over. */
const PAYLOAD_CHARS = 2_400

/** What is fixed for one run. */
export interface Run {
  readonly options: PayOptions
  /** The address as it was asked for. */
  readonly url: URL
  readonly commandId: string
  readonly onStep: (text: string) => void
}

export const underWay =
  'Another run of this command is under way; this one signed nothing. Run it again when that one has ended, or pay anew with --again.'

/** Signs one of the entries, keeps the payment and sends it. */
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
    onStep(`Price: ${summary.amount} ${summary.symbol} on ${summary.network} to ${summary.payTo}.`)
    if (price.isAboveCap) {
      const isAgreed = await agree(options, summary, price, call.url)
      if (!isAgreed) return end('above_cap', aboveCapMessage(summary, options))
      // The user may have thought for a while; what follows has its own time.
      time = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
    }
    if (headerOf(chosen, offer, {}).length + PAYLOAD_CHARS > MAX_PAYMENT_HEADER_CHARS)
      return end('refused', 'The offer is so long that its payment could not be sent; nothing was signed.')

    const signed = await sign(
      run,
      chosen,
      { url: call.url, resource: offer.resource, entry: chosen.entry },
      time,
    )
    if (signed instanceof UnpayableTerms) {
      first ??= end('refused', signed.message)
      onStep(`This offer can not be paid: ${signed.message}`)
      continue
    }
    if (signed instanceof BuyerRefusal) return end(signed.outcome, signed.message)
    if (signed instanceof Error) return end('refused', unkept(signed))
    if (chosen.buyer.asksAPerson === true)
      time = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
    const paymentHeader = headerOf(chosen, offer, signed.payload)
    const paidCall = withOwnKey(call)
    const stateFile = await kept(() =>
      payments.save(commandId, keptOf(paidCall, paymentHeader, signed, summary)),
    )
    if (stateFile instanceof Error) return end('refused', unkept(stateFile))
    await payments.dropOrderKey(commandId)
    if (!mayGoOn()) {
      await payments.remove(stateFile)
      return end('under_way', underWay)
    }
    onStep(`Signed. Kept in ${stateFile}; sending.`)

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
      deliver: options.deliver,
    })
  }
  return first!
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

async function agree(options: PayOptions, summary: PaymentSummary, price: Price, url: URL): Promise<boolean> {
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
    url: url.href,
    isWithinTenfold: price.isWithinTenfold,
  }
  return await options.confirm(question, options.signal)
}

const aboveCapMessage = ({ usd }: PaymentSummary, { maxUsd }: PayOptions): string =>
  `The price of ${usd} USD is above the cap of ${maxUsd ?? DEFAULT_MAX_USD} USD; nothing was signed. --max raises the cap.`

/** Where somebody else signs, the order is kept first: a run that is killed meanwhile goes on with the same one. */
async function sign(
  { options, commandId }: Run,
  { terms, buyer }: ChosenEntry<Buyer>,
  order: Order,
  time: Deadline,
): Promise<SignedPayment | BuyerRefusal | Error> {
  if (buyer.asksAPerson !== true) return await buyer.sign(terms, time.calls, order).catch(asRefusal)
  const { payments, signal = new AbortController().signal } = options
  const isKept = options.again !== true
  const idempotencyKey = isKept ? await kept(() => payments.keepOrderKey(commandId, order)) : undefined
  if (idempotencyKey instanceof Error) return idempotencyKey
  const signed = await buyer
    .sign(terms, signal, idempotencyKey === undefined ? order : { ...order, idempotencyKey })
    .catch(asRefusal)
  // A vault that went away may have signed: the next run asks it for the same.
  if (isKept && signed instanceof BuyerRefusal && signed.outcome !== 'vault_away')
    await payments.dropOrderKey(commandId)
  return signed
}

/** Nothing is sent that could not be sent again after a crash. */
async function kept(write: () => Promise<string>): Promise<string | Error> {
  try {
    return await write()
  } catch (error) {
    return new Error(codeOf(error))
  }
}

export const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? 'unknown'

const unkept = ({ message }: Error): string =>
  `The payment could not be kept on disk (${message}), so it was not sent.`

const headerOf = ({ entry }: ChosenEntry<Buyer>, { resource, extensions }: Offer, payload: object): string =>
  encodeHeader({ x402Version: 2, payload, resource, accepted: entry, extensions })

/**
 * What was paid for is handed out again to its buyer, and a payment can be read on chain by anybody: this key tells the two
 * apart, wherever a later run asks from. Unless the user's own headers have one.
 */
function withOwnKey(call: HttpCall): HttpCall {
  const isGiven = call.headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'idempotency-key')
  return isGiven ? call : { ...call, headers: [...call.headers, 'Idempotency-Key', randomUUID()] }
}

function keptOf(
  call: HttpCall,
  paymentHeader: string,
  payment: SignedPayment,
  summary: PaymentSummary,
): KeptPayment {
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
