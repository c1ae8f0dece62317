import { type ChannelId, isPublic } from '../domain/channel.ts'
import type { AtomicAmount } from '../domain/money.ts'
import type { ErrorCode } from '../errors/codes.ts'
import { TollgateError } from '../errors/error.ts'
import type { PurchaseNote } from '../payments/purchase.ts'
import type { ChannelPayment } from '../x402/channelPayment.ts'
import type { PaymentRequired, SettleResponse } from '../x402/types.ts'
import type { ChannelOffer } from './offers.ts'
import type { OpenChannel } from './openChannel.ts'
import { channelReasons } from './reasons.ts'

/** A receipt of a call that is paid by a channel. The client reads `extra` (x402 packages, scheme `batch-settlement`). */
export interface ChannelReceipt extends SettleResponse {
  readonly extra: { readonly channelState: object; readonly chargedAmount?: string }
}

/** A call that is paid by a channel, in the exchange. */
export class ChannelCall {
  readonly offer: ChannelOffer
  readonly payment: ChannelPayment
  /** Hash of method, path, query and body. Null if the body is too long, so that a repeat cannot be recognized. */
  readonly requestHash: string | null
  /** The id that the buyer has given the payment (x402 extension `payment-identifier`). Null without one. */
  readonly identifier: string | null
  /** The channel while this call holds it. */
  held: OpenChannel | null = null
  /** The channel's total in the row when this call was accepted. It is less than {@link base} if the row lacks calls. */
  before = 0n
  /** The ids that its response gets. A call of a channel is no purchase with a review token. */
  readonly note: PurchaseNote
  /** Whether the database did not say if it has charged the call. */
  isUnsure = false
  /** Transaction of this call's deposit. Empty if it made none. */
  depositTransaction = ''
  /** Whether the voucher's signature is checked. */
  isSigned = false
  /** Whether the channel that this call was corrected about is in the database. Naming another channel costs nothing. */
  isOfKnownChannel = false
  /** The channel's true state, for the 402 that corrects the client. Null if the refusal needs none. */
  correction: object | null = null

  constructor(
    offer: ChannelOffer,
    payment: ChannelPayment,
    requestHash: string | null,
    identifier: string | null,
    note: PurchaseNote,
  ) {
    this.note = note
    this.offer = offer
    this.payment = payment
    this.requestHash = requestHash
    this.identifier = identifier
  }

  /** The total on which the payer has signed the voucher: all charged calls before this one. */
  get base(): AtomicAmount {
    return this.payment.maxClaimable - this.offer.priceAtomic
  }
}

/** The id of a call as a purchase: the channel, and the voucher's total. */
export const purchaseIdOf = (id: ChannelId, total: AtomicAmount): string => `${id}:${total}`

/** `channelState` of offers and receipts. */
export function channelStateOf({ channel }: OpenChannel): object {
  const { id, balance, totalClaimed, withdrawRequestedAtSeconds, refundNonce, charged } = channel
  return {
    channelId: id,
    balance: String(balance),
    totalClaimed: String(totalClaimed),
    withdrawRequestedAt: withdrawRequestedAtSeconds,
    refundNonce: String(refundNonce),
    chargedCumulativeAmount: String(charged),
  }
}

/**
 * Refuses a voucher with the channel's true state, so that the client corrects itself and repeats the call once. Without a charged
 * voucher there is nothing that could prove the total, so the client reads the chain instead.
 */
export function correct(call: ChannelCall, open: OpenChannel): TollgateError {
  const { charged, totalClaimed, signed, signature } = open.channel
  const { maxClaimable } = call.payment
  // A claimed voucher is public, so its sender may not be the payer, and does not get a voucher that is not claimed.
  const isPayers = !isPublic(open.channel, maxClaimable) || charged === totalClaimed
  call.isOfKnownChannel = open.isStored
  call.correction = {
    channelState: channelStateOf(open),
    ...(signature !== null &&
      isPayers && { voucherState: { signedMaxClaimable: String(signed), signature } }),
  }
  const reason =
    maxClaimable <= totalClaimed && call.payment.type !== 'refund'
      ? channelReasons.belowClaimed
      : channelReasons.amountMismatch
  const expected = call.payment.type === 'refund' ? charged : charged + call.offer.priceAtomic
  return refuse(
    reason,
    `Expected a voucher over ${expected} atomic units, which is the channel's total so far${call.payment.type === 'refund' ? '' : ' and the most that this call costs'}, got one over ${maxClaimable}. Nothing was charged. Sign the expected total.`,
  )
}

/** Refuses a payment by a channel. The reason is the package's own, because clients compare it. */
export const refuse = (reason: string, message: string, code: ErrorCode = 'invalid_payment'): TollgateError =>
  new TollgateError(code, message, { reason, ...(code !== 'invalid_payment' && { retryAfterSeconds: 2 }) })

/** The refusal while chain or database do not respond, or another process has the channel. */
export const unavailable = (reason: string, message: string): TollgateError =>
  refuse(reason, `${message} Nothing was charged. Try again with the same payment.`, 'settlement_unavailable')

export const busy = (): TollgateError =>
  unavailable(channelReasons.busy, 'Other calls of this payment channel are in progress.')

/**
 * Puts a channel's state into the first offer of the scheme in a 402, where the official client reads it.
 *
 * @param offer value of `PAYMENT-REQUIRED`
 */
export function withCorrection(offer: string, scheme: string, correction: object): string {
  const required = JSON.parse(Buffer.from(offer, 'base64').toString()) as PaymentRequired
  const at = required.accepts.findIndex((entry) => entry.scheme === scheme)
  const accepts = required.accepts.map((entry, i) =>
    i === at ? { ...entry, extra: { ...entry.extra, ...correction } } : entry,
  )
  return Buffer.from(JSON.stringify({ ...required, accepts })).toString('base64')
}
