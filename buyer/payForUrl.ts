import { channelScheme } from '../core/domain/channel.ts'
import { chooseEntry, type EntryWishes } from '../core/x402/offerTerms.ts'
import { asRefusal, BuyerRefusal } from './buyer.ts'
import { payByChannel } from './channels/payByChannel.ts'
import { reportWithoutPayment } from './conclude.ts'
import {
  type Deadline,
  type HttpCall,
  HttpFailure,
  type HttpResponse,
  readTarget,
  startDeadline,
} from './httpCall.ts'
import { codeOf, payOffer, type Run, underWay } from './payOffer.ts'
import {
  type CommandLock,
  DEFAULT_MAX_BODY_BYTES,
  DEFAULT_MAX_USD,
  DEFAULT_TIMEOUT_MS,
  type PayOptions,
  type Wallets,
} from './payOptions.ts'
import type { PayOutcome, PayReport } from './payReport.ts'
import { priceInUsd, readOffer, requestUnpaid, withoutOffer } from './readOffer.ts'
import { resumeCommand } from './resumePayment.ts'
import { offersSignIn, signInTo } from './signIn.ts'

/**
 * Calls a URL and, if it costs money, pays for it once. It reads the 402, and refuses an offer that it does not understand exactly.
 * It signs at most one payment, and stores the payment on disk before sending it. It repeats the same payment while the outcome is
 * unknown. It trusts a receipt only if the chain confirms it. If an earlier run with the same method, URL and body left a payment
 * open, that payment is sent again, and no other is signed. If two runs are concurrent, only one of them signs.
 *
 * @example const wallets = { eip155: createEvmBuyer({ privateKey }) }
 * const report = await payForUrl({ url: 'https://example.com/api/link/demo/hello', wallets, payments })
 * if (report.outcome === 'paid') use(report.response!.body)
 *
 * @returns a report for every outcome of the call
 * @throws {UsageError} if the options are wrong or a stored payment cannot be read. No request was sent then
 */
export async function payForUrl(options: PayOptions): Promise<PayReport> {
  const url = readTarget(options.url, options.allowInsecureHttp ?? false)
  const commandId = options.payments.idOf({ url, method: options.method ?? 'GET', body: options.body })
  const run: Run = { options, url, commandId, onStep: options.onStep ?? (() => {}) }
  if (options.again === true) return await payAgain(run, async (pay) => await pay(() => true))
  const open = await options.payments.find(commandId)
  if (open.length > 0) {
    // This releases the lock. The first run that takes it again signs. Any other run finds the lock taken, or finds the signed
    // payment.
    const former = await alone(run, null, () => resumeCommand(open, options))
    if (former !== undefined) return former
  }
  return await payAgain(run, (pay, response) =>
    alone(run, response, async ({ isOurs }) => {
      const meanwhile = await options.payments.find(commandId)
      return (await resumeCommand(meanwhile, options)) ?? (await pay(isOurs))
    }),
  )
}

/** Runs the work if no other run of the same command is working. */
async function alone<T>(
  { options, commandId, url }: Run,
  response: HttpResponse | null,
  work: (lock: CommandLock) => Promise<T>,
): Promise<T | PayReport> {
  let lock: CommandLock | undefined
  try {
    lock = await options.payments.lock(commandId)
  } catch (error) {
    const message = `A payment could not be kept on disk (${codeOf(error)}), so none was signed.`
    return reportWithoutPayment('refused', message, url.href, response)
  }
  if (lock === undefined) return reportWithoutPayment('under_way', underWay, url.href, response)
  try {
    return await work(lock)
  } finally {
    lock.release()
  }
}

/** Pays the offer. It calls `mayGoOn` directly before it sends the payment. */
type Pay = (mayGoOn: () => boolean) => Promise<PayReport>

/**
 * Requests the price and pays it.
 *
 * @param guard runs `pay` once there is a price that can be paid, or decides not to run it
 */
async function payAgain(
  run: Run,
  guard: (pay: Pay, response: HttpResponse) => Promise<PayReport>,
): Promise<PayReport> {
  const { options, url, onStep } = run
  const end = (outcome: PayOutcome, message: string, response: HttpResponse | null = null, at = url) =>
    reportWithoutPayment(outcome, message, at.href, response)

  const wallets = await walletsOf(options)
  if (wallets instanceof BuyerRefusal) return end(wallets.outcome, wallets.message)
  const deadline = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  const unpaid = await requestUnpaid(callOf(options, url, deadline), onStep)
  if (unpaid instanceof HttpFailure)
    return end('failed', `The server could not be reached: ${unpaid.message}.`)
  const { call, response } = unpaid
  const early = withoutOffer(unpaid)
  if (early !== undefined) return end(early.outcome, early.message, response, call.url)
  if (options.signIn === true) {
    const {
      response: called,
      message,
      mayBeServed,
    } = await signInTo(response, call, wallets, options.network)
    if (called !== null) return end(outcomeOf(called), `${message}. Nothing was paid.`, called, call.url)
    if (mayBeServed) return end('failed', `${message}. ${lostCall}`, null, call.url)
    onStep(`${message}.`)
  }
  const read = readOffer(response, call.url)
  const refuse = (message: string) =>
    end('refused', `The offer was refused: ${message}. Nothing was signed.`, null, call.url)
  if (!read.ok) {
    const mayHelp = options.signIn !== true && offersSignIn(response)
    return refuse(
      mayHelp ? `${read.message}, but the server accepts wallets that sign in (--sign-in)` : read.message,
    )
  }
  const capUsd = options.maxUsd ?? DEFAULT_MAX_USD
  const { offer } = read
  const wishes: EntryWishes = {
    only: options.network,
    fits: (terms) => !priceInUsd(terms, capUsd).isAboveCap,
    missing: typeof options.wallets === 'function' ? noWalletOfVault : noKey,
  }
  const channel = chooseEntry(offer.accepts, wallets, { ...wishes, byChannel: true })
  if (!channel.ok && options.deposit !== undefined) {
    if (offer.accepts.some(({ scheme }) => scheme === channelScheme)) return refuse(channel.message)
    onStep('The seller offers no payment channel, so this call is paid for alone.')
  }
  const choice = chooseEntry(offer.accepts, wallets, wishes)
  if (!choice.ok && !channel.ok) return refuse(choice.message)
  return await guard(async (mayGoOn) => {
    const report = channel.ok
      ? await payByChannel(run, call, offer, channel.chosen, deadline, mayGoOn)
      : undefined
    if (report !== undefined) return report
    if (!choice.ok) return refuse(choice.message)
    return await payOffer(run, call, offer, [choice.chosen, ...choice.others], deadline, mayGoOn)
  }, response)
}

/** What to do after a signed-in call whose response was lost. A payment could buy the same call a second time. */
const lostCall =
  'The server may have served the call. Nothing was paid. If the server may run the call twice, run the same command again to sign in again, or without --sign-in to pay.'

/** The outcome of a call that the server has accepted without a payment. */
const outcomeOf = ({ status, isWhole, isWithinLimit }: HttpResponse): PayOutcome =>
  status >= 200 && status < 300 && isWhole && isWithinLimit ? 'free' : 'failed'

const noKey = {
  eip155: 'no EVM key was given (TOLLGATE_EVM_KEY, or --key-file)',
  solana: 'no Solana key was given (TOLLGATE_SOLANA_KEY, or --key-file)',
} as const

const noWalletOfVault = {
  eip155: "the vault gives this agent no EVM wallet (the vault's owner can add the scope wallet.base)",
  solana: "the vault gives this agent no Solana wallet (the vault's owner can add the scope wallet.solana)",
} as const

async function walletsOf({ wallets }: PayOptions): Promise<Wallets | BuyerRefusal> {
  return typeof wallets === 'function' ? await wallets().catch(asRefusal) : wallets
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
