import {
  type Buyer,
  BuyerRefusal,
  type Order,
  type SignedPayment,
  UnpayableTerms,
} from '../../adapters/chains/buyer/buyer.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { type ChosenEntry, chooseEntry } from '../../core/x402/chooseEntry.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import type { Offer } from '../../core/x402/readEnvelope.ts'
import { askUnpaid } from './askUnpaid.ts'
import { conclude, reportWithoutPayment } from './conclude.ts'
import { type Deadline, startDeadline, within } from './deadline.ts'
import { type HttpAnswer, type HttpCall, HttpFailure } from './httpCall.ts'
import {
  dropOrderKey,
  findPayments,
  idOfCommand,
  keepOrderKey,
  type PaymentFile,
  removePayment,
  savePayment,
} from './paymentFile.ts'
import {
  type CapQuestion,
  DEFAULT_MAX_BODY_BYTES,
  DEFAULT_MAX_USD,
  DEFAULT_RETRY_DELAYS_MS,
  DEFAULT_TIMEOUT_MS,
  type PayOptions,
  type Wallets,
} from './payOptions.ts'
import type { PaymentSummary, PayOutcome, PayReport } from './payReport.ts'
import { type Price, priceInUsd } from './priceInUsd.ts'
import { readOffer } from './readOffer.ts'
import { resumeCommand } from './resumePayment.ts'
import { lockCommand, type RunLock } from './runLock.ts'
import { sendPayment } from './sendPayment.ts'
import { readTarget } from './targetUrl.ts'
import { VaultRefusal } from './vaultRefusal.ts'
import { withoutOffer } from './withoutOffer.ts'

/** Longest payment header: servers refuse a head above 16 KiB. */
const MAX_PAYMENT_HEADER_CHARS = 15_000
/** What a payload adds to it, at most: a Solana packet of 1,232 bytes in base64 twice over. */
const PAYLOAD_CHARS = 2_400

/**
 * Calls an address and, when it costs money, pays for it once: reads the 402, refuses what it does not understand exactly,
 * signs at most one payment, keeps it on disk before sending it, repeats that same payment while the outcome is open, and
 * believes a receipt only when the chain confirms it. When a former run of the same method, address and body has left a
 * payment open, that one is sent again and none is signed; of two runs at the same time, one signs.
 *
 * @example
 * const wallets = { eip155: createEvmBuyer({ privateKey }) }
 * const report = await payForUrl({ url: 'https://example.com/api/link/demo/hello', wallets, stateDir })
 * if (report.outcome === 'paid') use(report.answer!.body)
 *
 * @returns a report in every case that the world can bring about; exit codes in exitCodes.ts
 * @throws {UsageError} the options are wrong, or a kept payment can not be read; nothing was asked
 */
export async function payForUrl(options: PayOptions): Promise<PayReport> {
  const url = readTarget(options.url, options.allowInsecureHttp ?? false)
  const commandId = idOfCommand({ url, method: options.method ?? 'GET', body: options.body })
  const run: Run = { options, url, commandId, onStep: options.onStep ?? (() => {}) }
  if (options.again === true) return await payAnew(run, async (pay) => await pay(() => true))
  const open = await findPayments(options.stateDir, commandId)
  if (open.length > 0) {
    // The lock is let go in between: between the two, whoever comes first signs, and the other finds it busy or signed.
    const former = await alone(run, null, () => resumeCommand(open, options))
    if (former !== undefined) return former
  }
  return await payAnew(run, (pay, answer) =>
    alone(run, answer, async ({ isOurs }) => {
      const meanwhile = await findPayments(options.stateDir, commandId)
      return (await resumeCommand(meanwhile, options)) ?? (await pay(isOurs))
    }),
  )
}

/** What is fixed for one run. */
interface Run {
  readonly options: PayOptions
  /** The address as it was asked for. */
  readonly url: URL
  readonly commandId: string
  readonly onStep: (text: string) => void
}

/** Does something while no other run of the command does. */
async function alone<T>(
  { options, commandId, url }: Run,
  answer: HttpAnswer | null,
  work: (lock: RunLock) => Promise<T>,
): Promise<T | PayReport> {
  let lock: RunLock | undefined
  try {
    lock = await lockCommand(options.stateDir, commandId)
  } catch (error) {
    const message = `A payment could not be kept on disk (${codeOf(error)}), so none was signed.`
    return reportWithoutPayment('refused', message, url.href, answer)
  }
  if (lock === undefined) return reportWithoutPayment('under_way', underWay, url.href, answer)
  try {
    return await work(lock)
  } finally {
    lock.release()
  }
}

const underWay =
  'Another run of this command is under way; this one signed nothing. Run it again when that one has ended, or pay anew with --again.'

/** Pays what was offered; `mayGoOn` is asked last of all, before the payment is sent. */
type Pay = (mayGoOn: () => boolean) => Promise<PayReport>

/**
 * Asks for the price and pays it.
 *
 * @param guard decides, once a price is known that can be paid, whether `pay` runs
 */
async function payAnew(
  run: Run,
  guard: (pay: Pay, answer: HttpAnswer) => Promise<PayReport>,
): Promise<PayReport> {
  const { options, url, onStep } = run
  const end = (outcome: PayOutcome, message: string, answer: HttpAnswer | null = null, at = url) =>
    reportWithoutPayment(outcome, message, at.href, answer)

  const wallets = await walletsOf(options)
  if (wallets instanceof BuyerRefusal) return end(outcomeOf(wallets), wallets.message)
  const deadline = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  const unpaid = await askUnpaid(callOf(options, url, deadline), onStep)
  if (unpaid instanceof HttpFailure) return end('failed', `The server could not be asked: ${unpaid.message}.`)
  const { call, answer } = unpaid
  const early = withoutOffer(unpaid)
  if (early !== undefined) return end(early.outcome, early.message, answer, call.url)
  const read = readOffer(answer, call.url)
  const refuse = (message: string) =>
    end('refused', `The offer was refused: ${message}. Nothing was signed.`, null, call.url)
  if (!read.ok) return refuse(read.message)
  const capUsd = options.maxUsd ?? DEFAULT_MAX_USD
  const choice = chooseEntry(read.offer.accepts, wallets, {
    only: options.network,
    fits: (terms) => !priceInUsd(terms, capUsd).isAboveCap,
  })
  if (!choice.ok) return refuse(choice.message)
  return await guard(
    (mayGoOn) => payOffer(run, call, read.offer, [choice.chosen, ...choice.others], deadline, mayGoOn),
    answer,
  )
}

/** Signs one of the entries, keeps the payment and sends it. */
async function payOffer(
  run: Run,
  call: HttpCall,
  offer: Offer,
  entries: readonly ChosenEntry<Buyer>[],
  deadline: Deadline,
  mayGoOn: () => boolean,
): Promise<PayReport> {
  const { options, commandId, onStep } = run
  const { stateDir } = options
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
    if (signed instanceof BuyerRefusal) return end(outcomeOf(signed), signed.message)
    if (signed instanceof Error) return end('refused', unkept(signed))
    if (chosen.buyer.asksAPerson === true)
      time = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
    const paymentHeader = headerOf(chosen, offer, signed.payload)
    const stateFile = await kept(() =>
      savePayment(stateDir, commandId, fileOf(call, paymentHeader, signed, summary)),
    )
    if (stateFile instanceof Error) return end('refused', unkept(stateFile))
    await dropOrderKey(stateDir, commandId)
    if (!mayGoOn()) {
      await removePayment(stateFile)
      return end('under_way', underWay)
    }
    onStep(`Signed. Kept in ${stateFile}; sending.`)

    const sent = await sendPayment(
      { ...call, signal: time.calls },
      paymentHeader,
      signed,
      options.retryDelaysMs ?? DEFAULT_RETRY_DELAYS_MS,
      onStep,
    )
    return await conclude({
      url: call.url.href,
      summary,
      payment: signed,
      sent,
      stateFile,
      rpcUrl: options.rpcUrl,
      signal: within(time.all, options.chainWaitMs),
      onStep,
      deliver: options.deliver,
    })
  }
  return first!
}

async function walletsOf({ wallets }: PayOptions): Promise<Wallets | BuyerRefusal> {
  return typeof wallets === 'function' ? await wallets().catch(refusalOf) : wallets
}

const outcomeOf = (refusal: BuyerRefusal): PayOutcome =>
  refusal instanceof VaultRefusal ? refusal.outcome : 'refused'

function refusalOf(error: unknown): BuyerRefusal {
  if (error instanceof BuyerRefusal) return error
  throw error
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
  if (buyer.asksAPerson !== true) return await buyer.sign(terms, time.calls, order).catch(refusalOf)
  const { stateDir, signal = new AbortController().signal } = options
  const isKept = options.again !== true
  const idempotencyKey = isKept ? await kept(() => keepOrderKey(stateDir, commandId, order)) : undefined
  if (idempotencyKey instanceof Error) return idempotencyKey
  const signed = await buyer
    .sign(terms, signal, idempotencyKey === undefined ? order : { ...order, idempotencyKey })
    .catch(refusalOf)
  // A vault that went away may have signed: the next run asks it for the same.
  if (isKept && signed instanceof BuyerRefusal && outcomeOf(signed) !== 'vault_away')
    await dropOrderKey(stateDir, commandId)
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

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? 'unknown'

const unkept = ({ message }: Error): string =>
  `The payment could not be kept on disk (${message}), so it was not sent.`

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
