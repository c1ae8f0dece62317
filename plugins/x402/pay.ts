import type { ChannelOffer } from '../../core/channels/offers.ts'
import { channelScheme } from '../../core/domain/channel.ts'
import type { ServedLink } from '../../core/domain/link.ts'
import type { StoredResponse } from '../../core/domain/payment.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { Challenges } from '../../core/offers/challenge.ts'
import type { Offer } from '../../core/offers/offers.ts'
import { presentPayment, refusalOf, type Taken } from '../../core/offers/presentedPayment.ts'
import { type Charge, ChargeReceipt, type ReceiptSigning } from '../../core/payments/chargeReceipt.ts'
import type { Payments } from '../../core/payments/payments.ts'
import { failedForGood, settlementPending } from '../../core/payments/refusals.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { handled, type Reply, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { OwnSlot } from '../../core/plugin/slots.ts'
import { linkNotFound } from '../../core/ports/refusals.ts'
import { type ReadPayment, readPayment } from '../../core/x402/header.ts'
import { assertMethod, type SoldByChannel } from './channels.ts'

/** The dependencies that are the same for all links. */
export interface Selling {
  readonly payments: Payments
  readonly acceptV1: boolean
  readonly publicUrl: string
  /** Signs the receipts of a link. Absent if the gateway signs none. */
  readonly signingOf: ((link: ServedLink) => ReceiptSigning) | null
  /** Whether the payment was refused because of its payer, regardless of the status of the response. */
  readonly payersDoing: OwnSlot<boolean>
  /** Sells by payment channels. Null if no network has channels. */
  readonly byChannel: SoldByChannel | null
}

/** The offers of a link at one price. */
export interface OffersAtPrice {
  /** All offers of scheme `exact` or `upto`, including offers that the 402 no longer lists. */
  readonly all: readonly Offer[]
  /** The offers by payment channels. */
  readonly channels: readonly ChannelOffer[]
}

/** The hooks of a paid link. All links share one {@link Selling}. */
export class Sold implements RouteHooks {
  readonly #selling: Selling
  readonly #offers: OffersAtPrice
  readonly offer: Challenges

  constructor(selling: Selling, offers: OffersAtPrice, challenges: Challenges) {
    this.#selling = selling
    this.#offers = offers
    this.offer = challenges
  }

  pay(x: Exchange) {
    return pay(x, saleOf(x, this.#selling, this.#offers, this.offer))
  }

  verify(x: Exchange) {
    return verify(x, this.#selling)
  }

  settle(x: Exchange) {
    return settle(x, this.#selling)
  }

  deliver(x: Exchange): void {
    this.#selling.byChannel?.end(x)
  }
}

/** The hooks for a payment to a link that no longer exists. */
export class Former extends Sold {
  override pay(x: Exchange) {
    return payForRepeat(x, () => super.pay(x))
  }
}

export function saleOf(
  x: Exchange,
  { payments, acceptV1, publicUrl, signingOf, byChannel }: Selling,
  { all, channels }: OffersAtPrice,
  challenges: Challenges,
): Sale {
  return {
    offers: all,
    channels,
    byChannel,
    challenges,
    payments,
    acceptV1,
    publicUrl,
    signingOf,
    host: () => x.header('host'),
  }
}

/** The payments that a link accepts, and the response to a call without one. */
export interface Sale extends Taken {
  readonly challenges: Challenges
  readonly signingOf: Selling['signingOf']
  readonly channels: readonly ChannelOffer[]
  readonly byChannel: SoldByChannel | null
}

/** The pay phase. It sends the 402 if the call has no payment, and otherwise checks the payment's terms and signature. */
export function pay(x: Exchange, sale: Sale): Reply | void | Promise<Reply | void> {
  // HEAD gets the 402, because it must not bypass the price. Node omits the body.
  if (x.paymentHeader === null || x.method === 'HEAD') {
    const { looking } = sale.challenges
    if (looking !== undefined) return looking.then(() => unpaid(x, sale))
    return unpaid(x, sale)
  }
  if (sale.signingOf !== null) x.receiptSigning = sale.signingOf(x.link)
  let read: ReadPayment | undefined
  if (sale.byChannel !== null && sale.channels.length > 0) {
    if (x.x402Version === 2) read = readPayment(x.paymentHeader)
    if (read?.ok && read.payment.scheme === channelScheme)
      return sale.byChannel.pay(x, read, sale.channels, sale.publicUrl)
    assertMethod(x)
  }
  const presented = presentPayment(x.paymentHeader, x.x402Version, sale, read)
  if (presented instanceof Promise) return presented.then((late) => void (x.payment = late))
  x.payment = presented
}

function unpaid({ x402Version, subPath, query }: Exchange, { challenges }: Sale): Reply {
  if (subPath !== '' || query !== '') return challenges.at(x402Version, subPath + query)
  return x402Version === 1 ? challenges.v1 : challenges.v2
}

/**
 * The pay phase of a link that no longer exists. A buyer who has paid for a call of the link gets the response or the refund that
 * is owed. Other callers get no information about the link.
 */
const payForRepeat = (x: Exchange, payNow: () => ReturnType<typeof pay>): Promise<undefined> =>
  payForEarlier(x, payNow, linkNotFound())

/**
 * The pay phase of a call that the gateway does not sell now. A buyer who has already paid for the call gets the response or the
 * refund that is owed.
 *
 * @param refusal the error for every other caller
 */
export async function payForEarlier(
  x: Exchange,
  payNow: () => ReturnType<typeof pay>,
  refusal: Error,
): Promise<undefined> {
  try {
    await payNow()
  } catch (error) {
    throw isTollgateError(error) && error.code === 'invalid_payment' ? refusal : error
  }
  if (x.payment === null) throw refusal
  x.payment = { ...x.payment, unclaimable: refusal }
}

/**
 * The verify phase, which runs before the seller works. If the payment is already settled, the call is served late, and there is
 * nothing to verify.
 */
export async function verify(x: Exchange, { payments, payersDoing }: Selling): Promise<void> {
  if (x.settlement !== null || x.channelCall !== null) return
  const verified = await payments.verify(x.claim!)
  if (verified.ok) return
  if (verified.isPayersDoing) payersDoing.set(x, true)
  throw refusalOf(verified)
}

/** The settle phase. It charges the price, and explains a failed settlement to the buyer. */
export async function settle(x: Exchange, { payments, byChannel }: Selling): Promise<Reply | undefined> {
  if (x.settlement !== null) return
  if (x.channelCall !== null) return byChannel!.settle(x, x.channelCall)
  // The gateway has not called the seller's API yet, so a buyer who has disconnected is not charged.
  if (x.link.settle === 'before' && x.transport.isClosed) return handled
  const { payload, identity } = x.payment!
  const sinceMs = performance.now()
  const end = await payments.settle(x.claim!, responseToKeep(x), x.chargeAtomic ?? undefined).finally(() => {
    x.settleMs = performance.now() - sinceMs
  })
  switch (end.status) {
    case 'settled': {
      const transaction = end.transaction ?? ''
      const { network, payer } = identity
      const amount = end.chargedAtomic.toString()
      const charge: Charge = { success: true, transaction, network, payer, amount }
      x.settlement = new ChargeReceipt(payload.x402Version, charge, x.claim!.purchaseId, x.receiptSigning)
      return
    }
    case 'pending':
      throw settlementPending(
        'The payment was sent and its outcome is not known yet.',
        x.claim!.purchaseId,
        end.transaction,
        end.reason,
      )
    case 'failed':
      throw failedForGood({ errorReason: end.reason }, end.transaction)
    case 'rejected':
      throw refusalOf({ ok: false, ...end })
  }
}

function responseToKeep({ response }: Exchange): StoredResponse | null {
  if (response === null || response.tunnel !== null) return null
  return { status: response.status, headers: response.headers, body: response.body }
}
