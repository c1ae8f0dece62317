import { chooseEntry } from '../core/x402/chooseEntry.ts'
import { askUnpaid, withoutOffer } from './askUnpaid.ts'
import { asRefusal, BuyerRefusal } from './buyer.ts'
import { reportWithoutPayment } from './conclude.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import { type HttpAnswer, type HttpCall, HttpFailure } from './httpCall.ts'
import type { CommandLock } from './keptPayments.ts'
import { codeOf, payOffer, type Run, underWay } from './payOffer.ts'
import {
  DEFAULT_MAX_BODY_BYTES,
  DEFAULT_MAX_USD,
  DEFAULT_TIMEOUT_MS,
  type PayOptions,
  type Wallets,
} from './payOptions.ts'
import type { PayOutcome, PayReport } from './payReport.ts'
import { priceInUsd } from './priceInUsd.ts'
import { readOffer } from './readOffer.ts'
import { resumeCommand } from './resumePayment.ts'
import { readTarget } from './targetUrl.ts'

/**
 * Calls an address and, when it costs money, pays for it once: reads the 402, refuses what it does not understand exactly,
 * signs at most one payment, keeps it on disk before sending it, repeats that same payment while the outcome is open, and
 * believes a receipt only when the chain confirms it. When a former run of the same method, address and body has left a
 * payment open, that one is sent again and none is signed; of two runs at the same time, one signs.
 *
 * @example
 * const wallets = { eip155: createEvmBuyer({ privateKey }) }
 * const report = await payForUrl({ url: 'https://example.com/api/link/demo/hello', wallets, payments })
 * if (report.outcome === 'paid') use(report.answer!.body)
 *
 * @returns a report in every case that the world can bring about
 * @throws {UsageError} the options are wrong, or a kept payment can not be read; nothing was asked
 */
export async function payForUrl(options: PayOptions): Promise<PayReport> {
  const url = readTarget(options.url, options.allowInsecureHttp ?? false)
  const commandId = options.payments.idOf({ url, method: options.method ?? 'GET', body: options.body })
  const run: Run = { options, url, commandId, onStep: options.onStep ?? (() => {}) }
  if (options.again === true) return await payAnew(run, async (pay) => await pay(() => true))
  const open = await options.payments.find(commandId)
  if (open.length > 0) {
    // The lock is let go in between: between the two, whoever comes first signs, and the other finds it busy or signed.
    const former = await alone(run, null, () => resumeCommand(open, options))
    if (former !== undefined) return former
  }
  return await payAnew(run, (pay, answer) =>
    alone(run, answer, async ({ isOurs }) => {
      const meanwhile = await options.payments.find(commandId)
      return (await resumeCommand(meanwhile, options)) ?? (await pay(isOurs))
    }),
  )
}

/** Does something while no other run of the command does. */
async function alone<T>(
  { options, commandId, url }: Run,
  answer: HttpAnswer | null,
  work: (lock: CommandLock) => Promise<T>,
): Promise<T | PayReport> {
  let lock: CommandLock | undefined
  try {
    lock = await options.payments.lock(commandId)
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
  if (wallets instanceof BuyerRefusal) return end(wallets.outcome, wallets.message)
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
    missing: typeof options.wallets === 'function' ? noWalletOfVault : noKey,
  })
  if (!choice.ok) return refuse(choice.message)
  return await guard(
    (mayGoOn) => payOffer(run, call, read.offer, [choice.chosen, ...choice.others], deadline, mayGoOn),
    answer,
  )
}

const noKey = {
  eip155: 'no EVM key was given (TOLLGATE_EVM_KEY, or --key-file)',
  solana: 'no Solana key was given (TOLLGATE_SOLANA_KEY, or --key-file)',
} as const

const noWalletOfVault = {
  eip155: 'the vault gives this agent no EVM wallet (its owner can add the scope wallet.base)',
  solana: 'the vault gives this agent no Solana wallet (its owner can add the scope wallet.solana)',
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
