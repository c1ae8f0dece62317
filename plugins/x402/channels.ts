import { ChannelCall, purchaseIdOf } from '../../core/channels/channelCall.ts'
import type { ChannelCalls } from '../../core/channels/channelCalls.ts'
import type { ChannelOffer } from '../../core/channels/offers.ts'
import type { ServedLink } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { checksumAddress } from '../../core/evm/hex.ts'
import { jsonReply } from '../../core/http/replies.ts'
import { resourceFault } from '../../core/offers/presentedPayment.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import type { PurchaseNote } from '../../core/payments/purchase.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Reply } from '../../core/plugin/gateway.ts'
import { callHash } from '../../core/plugin/requestHash.ts'
import type { ChannelResponse } from '../../core/ports/store/channels.ts'
import { type ChannelPayment, readChannelPayment } from '../../core/x402/channelPayment.ts'
import { type ReadPayment, receiptHeaders } from '../../core/x402/header.ts'
import type { SettleResponse } from '../../core/x402/types.ts'

/** Maximum size of a response that is stored for a repeat of the call, in bytes. */
const MAX_STORED_BYTES = 16_384
/** Maximum size of a body by which a repeat is recognized, in bytes. */
const MAX_HASHED_BYTES = 1_048_576

const prefix = Buffer.from('{"data":')

type Read = Extract<ReadPayment, { readonly ok: true }>

/** Sells the calls of links by payment channels. */
export class SoldByChannel {
  readonly #channels: ChannelCalls
  readonly #opening: string

  /** @param metadataField name of the field beside `data`, such as `_svc` */
  constructor(channels: ChannelCalls, metadataField: string) {
    this.#channels = channels
    this.#opening = `,${JSON.stringify(metadataField)}:{"purchaseId":"`
  }

  /** The pay phase. It judges the voucher, and holds the channel until {@link end}. */
  pay(
    x: Exchange,
    read: Read,
    offers: readonly ChannelOffer[],
    publicUrl: string,
  ): Reply | void | Promise<Reply | void> {
    const hash = callHash(x, MAX_HASHED_BYTES)
    return hash instanceof Promise
      ? hash.then((late) => this.#pay(x, read, offers, publicUrl, late))
      : this.#pay(x, read, offers, publicUrl, hash)
  }

  #pay(
    x: Exchange,
    { payment, resourceUrl }: Read,
    offers: readonly ChannelOffer[],
    publicUrl: string,
    hash: string | null,
  ): Reply | void | Promise<Reply | void> {
    const offer = select(offers, payment.network, payment.accepted?.['asset'])
    if (offer === undefined)
      throw new TollgateError('invalid_payment', 'Expected a payment by an entry of accepts in the 402.', {
        reason: 'invalid_network',
      })
    const channelPayment = readChannelPayment(payment.payload, payment.allowancePermit)
    if (!channelPayment.ok)
      throw new TollgateError('invalid_payment', channelPayment.message, {
        reason: 'invalid_payload',
        isUnread: true,
      })
    const { payment: given } = channelPayment
    const note = this.#noteOf(x, given)
    const call = new ChannelCall(offer, given, hash, payment.identifier ?? null, note)
    x.channelCall = call
    const fault = resourceFault(resourceUrl, { publicUrl, host: () => x.header('host') })
    if (fault !== null) throw fault
    if (call.payment.type === 'refund') return this.#refund(x, call)
    assertMethod(x)
    const known = this.#channels.admit(call, x.link)
    if (known instanceof Promise) return known.then((late) => this.#stored(call, late))
    return this.#stored(call, known)
  }

  /** The settle phase. It charges the channel after the seller has responded. */
  async settle(x: Exchange, call: ChannelCall): Promise<undefined> {
    const sinceMs = performance.now()
    const amountAtomic = x.chargeAtomic ?? call.offer.priceAtomic
    const receipt = this.#channels.receiptOf(call, amountAtomic)
    const headers = receiptHeaders(2, receipt)
    await this.#channels.charge(call, x.link, storable(x, headers[1]!), amountAtomic)
    x.settleMs = performance.now() - sinceMs
    x.settlement = { transaction: receipt.transaction, headers, headersFor: () => headers }
    x.purchase = call.note
  }

  /** The receipt of a call's deposit, for a response that is sent before its charge is known. Null if it has made none. */
  depositReceipt({ depositTransaction, held, payment }: ChannelCall): string | null {
    if (depositTransaction === '') return null
    const { network, config } = held!.channel
    const receipt: SettleResponse = {
      success: true,
      transaction: depositTransaction,
      network,
      payer: checksumAddress(config.payer),
      amount: String(payment.deposit!.amount),
    }
    return receiptHeaders(2, receipt)[1]!
  }

  /** Frees the channel for the next call. */
  end(x: Exchange): void {
    if (x.channelCall !== null) this.#channels.end(x.channelCall)
  }

  /** A refund calls no seller. */
  async #refund(x: Exchange, call: ChannelCall): Promise<Reply> {
    const receipt = await this.#channels.refund(call, x.link)
    const body = { message: 'Refunded.', channelId: call.payment.channelId, amount: receipt.amount }
    return jsonReply(200, body, ['Cache-Control', 'private, no-store', ...receiptHeaders(2, receipt)])
  }

  #stored(call: ChannelCall, response: ChannelResponse | undefined): Reply | void {
    if (response === undefined) return
    const headers = ['PAYMENT-RESPONSE', response.receipt]
    return paidReply(response, response.mediaType, call.note, headers, false)
  }

  #noteOf({ link }: Exchange, { channelId, maxClaimable }: ChannelPayment): PurchaseNote {
    const id = purchaseIdOf(channelId, maxClaimable)
    const isWrapped = link.responseMode === 'wrap'
    const wrap = isWrapped ? { prefix, suffix: Buffer.from(`${this.#opening}${id}"}}`, 'latin1') } : null
    return { id, reviewToken: '', wrap, headers: ['X-Purchase-Id', id] }
  }
}

function select(offers: readonly ChannelOffer[], network: string, asset: unknown): ChannelOffer | undefined {
  const onNetwork = offers.filter(({ terms }) => terms.network === network)
  return typeof asset === 'string'
    ? onNetwork.find(({ token }) => token === asset.toLowerCase())
    : onNetwork[0]
}

/** Whether a GET buys a call of the link. Every other method that reaches the link does. */
export const sells = ({ methods }: Pick<ServedLink, 'methods'>, method: string): boolean =>
  method !== 'GET' || methods.length === 0 || methods.includes(method)

/**
 * Refuses a call by a method that the link does not have. Only refunds come by GET to such a link.
 */
export function assertMethod({ method, link }: Exchange): void {
  if (sells(link, method)) return
  throw new TollgateError(
    'method_not_allowed',
    `Expected one of ${link.methods.join(', ')}, got GET. You were not charged.`,
  )
}

function storable({ response }: Exchange, receipt: string): ChannelResponse | null {
  if (response === null || response.tunnel !== null) return null
  const { status, headers, mediaType, body } = response
  if (body.length + headers.reduce((sum, text) => sum + text.length, 0) > MAX_STORED_BYTES) return null
  return { status, headers, mediaType, body, receipt }
}
