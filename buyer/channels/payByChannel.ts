import { setTimeout as wait } from 'node:timers/promises'
import { channelScheme } from '../../core/domain/channel.ts'
import { ChannelHashes } from '../../core/domain/channelHashes.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { checksumAddress } from '../../core/evm/hex.ts'
import { channelConfigOf, channelPayload } from '../../core/x402/channelTerms.ts'
import type { Offer } from '../../core/x402/envelope.ts'
import type { ChosenEntry, OfferTerms } from '../../core/x402/offerTerms.ts'
import { asRefusal, type Buyer, BuyerRefusal, type SignedPayment } from '../buyer.ts'
import { reportWithoutPayment } from '../conclude.ts'
import { type Deadline, type HttpCall, startDeadline, within } from '../httpCall.ts'
import {
  aboveCapMessage,
  agree,
  headerOf,
  MAX_PAYMENT_HEADER_CHARS,
  type Run,
  savedOf,
  storedAttempt,
  summaryOf,
  underWay,
  unkept,
} from '../payOffer.ts'
import {
  type CommandLock,
  DEFAULT_MAX_USD,
  DEFAULT_TIMEOUT_MS,
  defaultRetryDelaysMs,
  type PayOptions,
} from '../payOptions.ts'
import type { PayOutcome, PayReport } from '../payReport.ts'
import { priceInUsd } from '../readOffer.ts'
import { sendPayment } from '../sendPayment.ts'
import { judgeSignedOffers } from '../signedOffer.ts'
import { planOf } from './channelPlan.ts'
import { type ChannelRecord, signedIn } from './channelRecord.ts'
import { readCorrection } from './channelResponse.ts'
import { ChannelReader } from './channelState.ts'
import { concludeCall, inUnits } from './concludeCall.ts'
import { readKnown, unspentChannels } from './knownChannel.ts'

/** A voucher does not expire, so its time is the latest that a date can have. */
const NEVER_MS = 8_640_000_000_000_000
/** Time between two attempts to lock a channel that another run uses, in ms. */
const LOCK_POLL_MS = 50

/**
 * Pays a call by the wallet's channel for the offer. Each voucher signs the total that is known to be charged and the most that this
 * call costs, and nothing is sent before the record is on disk. A deposit is signed only if `--deposit` allows it, the channel does not cover
 * the call, and no earlier deposit can still land.
 *
 * @returns undefined if no channel is open that covers the call, and none may be filled, so that the call is paid in another way
 */
export async function payByChannel(
  run: Run,
  call: HttpCall,
  offer: Offer,
  chosen: ChosenEntry<Buyer>,
  deadline: Deadline,
  mayGoOn: () => boolean,
): Promise<PayReport | undefined> {
  const { options, onStep } = run
  const { terms, buyer } = chosen
  if (buyer.signChannel === undefined) return undefined
  const { network } = terms.asset
  const id = idOf(terms, buyer.address)
  if (options.deposit === undefined && (await options.payments.findChannel(id)) === undefined)
    return undefined
  const price = priceInUsd(terms, options.maxUsd ?? DEFAULT_MAX_USD)
  const summary = summaryOf(chosen, price, offer)
  const end = (outcome: PayOutcome, message: string): PayReport => ({
    ...reportWithoutPayment(outcome, message, call.url.href, null),
    payment: summary,
  })
  onStep(`Price: ${summary.amount} ${summary.symbol} by a payment channel on ${network} to ${summary.payTo}.`)
  let time = deadline
  if (price.isAboveCap) {
    if (!(await agree(options, summary, price, call.url)))
      return end('above_cap', aboveCapMessage(summary, options))
    time = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  }
  const signedOffers = await judgeSignedOffers(offer.signedOffers, chosen.entry, call.url, Date.now())
  if (signedOffers.refusal !== undefined) return end('refused', signedOffers.refusal)

  const lock = await lockChannel(options, id, time.calls)
  if (lock === undefined) return end('under_way', channelInUse)
  try {
    return await payLocked({
      run,
      call,
      offer,
      chosen,
      time,
      mayGoOn: () => mayGoOn() && lock.isOurs(),
      id,
      end,
      warnings: [signedOffers.warning],
    })
  } catch (error) {
    const refusal = asRefusal(error)
    return end(refusal.outcome, refusal.message)
  } finally {
    lock.release()
  }
}

/** Id of the channel that a payer has by these terms. */
export const idOf = (terms: OfferTerms, payer: string): string =>
  new ChannelHashes(Number(terms.asset.network.slice('eip155:'.length))).channelId(
    channelConfigOf(terms, payer),
  )

export const channelInUse =
  "Other runs used the wallet's channel until the time limit, so this run signed nothing. Run the command again, or give it more time with --timeout."

/** Waits until no other run uses the channel. @returns undefined if the time ends first */
export async function lockChannel(
  { payments }: Pick<PayOptions, 'payments'>,
  id: string,
  signal: AbortSignal,
): Promise<CommandLock | undefined> {
  for (;;) {
    const lock = await payments.lock(id)
    if (lock !== undefined || signal.aborted) return lock
    await wait(LOCK_POLL_MS, undefined, { signal }).catch(() => undefined)
  }
}

interface LockedCall {
  readonly run: Run
  readonly call: HttpCall
  readonly offer: Offer
  readonly chosen: ChosenEntry<Buyer>
  readonly time: Deadline
  readonly id: string
  readonly warnings: readonly (string | undefined)[]
  /** False if another run has taken over the command or the channel. */
  mayGoOn(): boolean
  end(outcome: PayOutcome, message: string): PayReport
}

/** The call of a run that holds the channel. @throws {BuyerRefusal} if nothing was sent */
async function payLocked(locked: LockedCall): Promise<PayReport | undefined> {
  const { run, call, offer, chosen, id, end } = locked
  const { options, commandId, onStep } = run
  const { payments } = options
  const { terms, buyer, entry } = chosen
  const { network } = terms.asset
  const summary = summaryOf(chosen, priceInUsd(terms, options.maxUsd ?? DEFAULT_MAX_USD), offer)
  const warnings = locked.warnings.filter((text) => text !== undefined)
  const reader = new ChannelReader(network, options.rpcUrl, locked.time.calls)
  let { record, state } = await readKnown(payments, id, reader)
  // A seller can have charged only vouchers of earlier calls when it turns this call down.
  const highestBefore = record === undefined ? state.balance : signedIn(record).maxClaimable
  let { time } = locked
  for (let isCorrected = false; ; isCorrected = true) {
    const plan = planOf(record, state, terms, options.deposit)
    if (plan === undefined) return undefined
    const { totalAtomic, depositAtomic } = plan
    if (depositAtomic !== null) {
      await refuseSecondChannel(locked, reader)
      onStep(depositStep(terms, depositAtomic))
    }
    const order = { url: call.url, resource: offer.resource, entry }
    const until =
      buyer.waitsForPerson === true ? (options.signal ?? new AbortController().signal) : time.calls
    const signed = await buyer.signChannel!(terms, { totalAtomic, depositAtomic }, until, order)
    if (buyer.waitsForPerson === true)
      time = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
    const deposit = signed.deposit ?? (record === undefined ? null : signedIn(record).deposit)
    const voucher = { channelId: id, maxClaimable: totalAtomic, signature: signed.signature }
    const config = channelConfigOf(terms, buyer.address)
    const payload = channelPayload(deposit === null ? 'voucher' : 'deposit', config, voucher, deposit)
    const charged = String(totalAtomic - terms.amountAtomic)
    record = { tollgateChannel: 1, id, network, url: call.url.href, charged, payload }
    const payment = paymentOf(terms, buyer, payload)
    // A corrected payment is another payment, so it does not repeat the first one's payment id.
    const paymentHeader = headerOf(chosen, isCorrected ? { ...offer, extensions: undefined } : offer, payload)
    if (paymentHeader.length > MAX_PAYMENT_HEADER_CHARS)
      return end('refused', 'The offer is too long, so its payment could not be sent.')
    // A run that has taken the channel over has stored a record of its own.
    if (!locked.mayGoOn()) return end('under_way', underWay)
    const stateFile = await storedAttempt(async () => {
      await payments.saveChannel(record!)
      return await payments.save(commandId, savedOf(call, paymentHeader, payment, summary))
    })
    if (stateFile instanceof Error) return end('refused', unkept(stateFile))
    if (!locked.mayGoOn()) {
      await payments.remove(stateFile)
      return end('under_way', underWay)
    }
    const delaysMs = options.retryDelaysMs ?? defaultRetryDelaysMs
    const sent = await sendPayment({ ...call, signal: time.calls }, paymentHeader, payment, delaysMs, onStep)
    const correction =
      sent.response === null || isCorrected
        ? undefined
        : await readCorrection(sent.response, signedIn(record), network)
    if (correction !== undefined) state = await reader.state(id).catch(() => state)
    const known = correction?.total ?? state.totalClaimed
    // A voucher that allows more than its call has cost proves later totals too. So the call may also have been charged if it was sent
    // more than once, or if only its own voucher proves the total.
    const mayBeProof = sent.attempts > 1 || (correction?.signed ?? known) > highestBefore
    const isOfThisCall = mayBeProof && known > BigInt(record.charged) && known <= totalAtomic
    if (
      correction === undefined ||
      known < state.totalClaimed ||
      String(known) === record.charged ||
      isOfThisCall
    ) {
      const report = await concludeCall({
        url: call.url.href,
        summary,
        payment,
        sent,
        record,
        options,
        stateFile,
        signal: within(time.all, options.chainWaitMs),
        warnings,
      })
      if (correction === undefined || !isOfThisCall) return report
      const message =
        "The seller shows this call's voucher as charged, but sent no response. The same command now pays for a new call."
      return { ...report, outcome: 'bad_response', charged: 'unknown', message }
    }
    const [before, after] = [BigInt(record.charged), known].map((one) =>
      formatAmount(one, terms.asset.decimals, 2),
    )
    const corrected = `The seller corrected the channel's charged total from ${before} to ${after} ${terms.asset.symbol}`
    onStep(`${corrected}.`)
    if (known > BigInt(record.charged))
      warnings.push(`${corrected}, by vouchers of this wallet whose calls have no known outcome here.`)
    record = { ...record, charged: String(known) }
    await payments.saveChannel(record)
    await payments.remove(stateFile)
  }
}

/** A seller that names other terms with each call would otherwise get a deposit with each call. @throws {BuyerRefusal} */
async function refuseSecondChannel({ run, call, chosen, id }: LockedCall, reader: ChannelReader) {
  const { asset } = chosen.terms
  const isOther = (record: ChannelRecord) => {
    const url = URL.parse(record.url)
    return (
      record.id !== id &&
      record.network === asset.network &&
      url?.origin === call.url.origin &&
      url.pathname === call.url.pathname &&
      signedIn(record).config.payer === chosen.buyer.address.toLowerCase()
    )
  }
  const [other] = await unspentChannels(run.options.payments, isOther, () => reader)
  if (other === undefined) return
  const left = inUnits(other.left + other.open, { network: asset.network, asset: asset.address })
  throw new BuyerRefusal(
    `The seller names other terms than before, so a deposit would open a second channel, and your channel ${other.record.id} has ${left} left. --refund-channel tells how to withdraw that. Without --deposit, this call is paid for alone. Nothing was signed.`,
  )
}

const depositStep = ({ asset, extra }: OfferTerms, amount: bigint): string =>
  `Depositing ${formatAmount(amount, asset.decimals, 2)} ${asset.symbol} into the channel. What is not spent comes back by --refund-channel, or ${extra['withdrawDelay']} seconds after a withdrawal.`

const paymentOf = (
  { asset, amountAtomic, payTo }: OfferTerms,
  { address }: Buyer,
  payload: SignedPayment['payload'],
): SignedPayment => ({
  scheme: channelScheme,
  network: asset.network,
  asset: asset.address,
  amount: amountAtomic.toString(),
  payTo: checksumAddress(payTo.toLowerCase()),
  payer: address,
  payload,
  validBeforeMs: NEVER_MS,
  blockBound: 0,
})
