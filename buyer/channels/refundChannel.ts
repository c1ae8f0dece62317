import { formatAmount } from '../../core/domain/money.ts'
import { channelConfigOf, channelPayload } from '../../core/x402/channelTerms.ts'
import type { Offer } from '../../core/x402/envelope.ts'
import { type ChosenEntry, chooseEntry } from '../../core/x402/offerTerms.ts'
import { asRefusal, type Buyer } from '../buyer.ts'
import { reportWithoutPayment } from '../conclude.ts'
import {
  callOnce,
  type Deadline,
  type HttpCall,
  HttpFailure,
  readTarget,
  startDeadline,
} from '../httpCall.ts'
import { headerOf, summaryOf as paymentSummaryOf } from '../payOffer.ts'
import { DEFAULT_MAX_BODY_BYTES, DEFAULT_TIMEOUT_MS, type PayOptions } from '../payOptions.ts'
import type { PayReport } from '../payReport.ts'
import { priceInUsd, readOffer, requestUnpaid, withoutOffer } from '../readOffer.ts'
import { signedIn } from './channelRecord.ts'
import { readCorrection, reasonIn } from './channelResponse.ts'
import { ChannelReader } from './channelState.ts'
import { summaryOf } from './concludeCall.ts'
import { readKnown } from './knownChannel.ts'
import { channelInUse, idOf, lockChannel } from './payByChannel.ts'
import { withdrawalsAt } from './withdrawal.ts'

/**
 * Has the seller return what is left in the wallet's channel. The call is a GET, which buys nothing: the seller claims the charged total
 * and refunds the rest. The voucher signs only the total that is charged already.
 *
 * @returns outcome `refunded` if the chain shows the refund. Otherwise the message says how to withdraw without the seller
 * @throws {UsageError} if the options are wrong
 */
export async function refundChannel(options: PayOptions): Promise<PayReport> {
  const url = readTarget(options.url, options.allowInsecureHttp ?? false)
  const report = await askSeller(url, options)
  if (report.outcome === 'refunded') return report
  return { ...report, message: [report.message, ...(await withdrawalsAt(url, options))].join(' ') }
}

async function askSeller(url: URL, options: PayOptions): Promise<PayReport> {
  const deadline = startDeadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, options.signal)
  const refuse = (message: string) => reportWithoutPayment('refused', message, url.href, null)
  const call: HttpCall = {
    url,
    method: 'GET',
    headers: options.headers ?? [],
    body: undefined,
    maxBodyBytes: options.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES,
    signal: deadline.calls,
  }
  const unpaid = await requestUnpaid(call, options.onStep ?? (() => {}))
  if (unpaid instanceof HttpFailure)
    return reportWithoutPayment(
      'failed',
      `The server could not be reached: ${unpaid.message}.`,
      url.href,
      null,
    )
  if (withoutOffer(unpaid) !== undefined)
    return refuse(
      `Expected a 402 with the channel's terms, got ${unpaid.response.status}. Nothing was signed.`,
    )
  const read = readOffer(unpaid.response, unpaid.call.url)
  if (!read.ok) return refuse(`The offer was refused: ${read.message}. Nothing was signed.`)
  try {
    const wallets = typeof options.wallets === 'function' ? await options.wallets() : options.wallets
    const choice = chooseEntry(read.offer.accepts, wallets, { only: options.network, byChannel: true })
    if (!choice.ok) return refuse(`The offer was refused: ${choice.message}. Nothing was signed.`)
    const { chosen } = choice
    const id = idOf(chosen.terms, chosen.buyer.address)
    const lock = await lockChannel(options, id, deadline.calls)
    if (lock === undefined) return reportWithoutPayment('under_way', channelInUse, url.href, null)
    try {
      return await refundLocked(options, unpaid.call, read.offer, chosen, id, deadline)
    } finally {
      lock.release()
    }
  } catch (error) {
    const refusal = asRefusal(error)
    return reportWithoutPayment(refusal.outcome, refusal.message, url.href, null)
  }
}

async function refundLocked(
  options: PayOptions,
  call: HttpCall,
  offer: Offer,
  chosen: ChosenEntry<Buyer>,
  id: string,
  { calls, all }: Deadline,
): Promise<PayReport> {
  const { terms, buyer, entry } = chosen
  const { asset } = terms
  const { network } = asset
  const config = channelConfigOf(terms, buyer.address)
  const reader = new ChannelReader(network, options.rpcUrl, all)
  const { record, state } = await readKnown(options.payments, id, reader)
  const end = (message: string) => reportWithoutPayment('refused', message, call.url.href, null)
  const units = (amount: bigint) => `${formatAmount(amount, asset.decimals, 2)} ${asset.symbol}`
  let charged = record === undefined ? state.totalClaimed : BigInt(record.charged)
  if (state.balance <= charged) return end(`Nothing is left in the channel ${id}. Nothing was signed.`)
  if (buyer.signChannel === undefined) return end('This wallet does not sign for channels.')
  for (let isCorrected = false; ; isCorrected = true) {
    const order = { url: call.url, resource: offer.resource, entry }
    const { signature } = await buyer.signChannel(
      terms,
      { totalAtomic: charged, depositAtomic: null },
      calls,
      order,
    )
    const voucher = { channelId: id, maxClaimable: charged, signature }
    const payload = channelPayload('refund', config, voucher)
    const header = headerOf(chosen, { ...offer, extensions: undefined }, payload)
    const response = await callOnce({
      ...call,
      headers: [...call.headers, 'PAYMENT-SIGNATURE', header],
    }).catch((error: unknown) => {
      if (error instanceof HttpFailure) return error
      throw error
    })
    const correction =
      response instanceof HttpFailure || isCorrected
        ? undefined
        : await readCorrection(response, signedIn({ payload }), network)
    const known = correction?.total ?? state.totalClaimed
    if (correction !== undefined && known >= state.totalClaimed && known !== charged) {
      charged = known
      continue
    }
    const after = await reader.state(id)
    const back = state.balance - after.balance
    const fresh = { tollgateChannel: 1, id, network, url: call.url.href } as const
    const kept = { ...fresh, charged: String(charged), payload: record?.payload ?? withoutRefund(payload) }
    await options.payments.saveChannel(kept)
    const isRefunded = back > 0n
    const answer =
      response instanceof HttpFailure
        ? `The server could not be reached: ${response.message}`
        : `The seller responded with ${response.status}${reasonIn(response)}`
    const message = isRefunded
      ? `Refunded ${units(back)} of the channel to ${buyer.address}, and the chain confirms it.`
      : `${answer}, and the chain shows no refund. ${units(after.balance - charged)} are left. Run the command again later, or withdraw without the seller.`
    return {
      ...reportWithoutPayment(
        isRefunded ? 'refunded' : 'failed',
        message,
        call.url.href,
        response instanceof HttpFailure ? null : response,
      ),
      payment: paymentSummaryOf(chosen, priceInUsd(terms, '0'), offer),
      isVerified: isRefunded,
      channel: await summaryOf(kept, { network, asset: asset.address }, options.rpcUrl, all),
    }
  }
}

/** A refund is stored as its voucher, which is what the seller can use. */
function withoutRefund(payload: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return { ...payload, type: 'voucher' }
}
