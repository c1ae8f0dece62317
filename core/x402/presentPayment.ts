import { familyOf, type NetworkId, networkOfV1Name } from '../domain/network.ts'
import { TollgateError, type TollgateErrorOptions } from '../errors/error.ts'
import type { Payments, PresentedPayment } from '../payments/payments.ts'
import type { Checked, Refusal } from '../ports/chains/settler.ts'
import { type BareTransaction, readBareTransaction } from './bareTransaction.ts'
import { barePayments, formerPayment } from './formerPayment.ts'
import { readPayment } from './header.ts'
import type { Offer } from './offers.ts'
import { isObject, own } from './strictJson.ts'
import type { PaymentPayload } from './types.ts'

/** What is taken for something that is sold, whichever door it is sold by. */
export interface Taken {
  /** The closed ones as well: who paid by one earlier gets what it has bought. */
  readonly offers: readonly Offer[]
  readonly payments: Pick<Payments, 'find'>
  readonly acceptV1: boolean
  /** Without a trailing slash. */
  readonly publicUrl: string
  /** The call's own `Host`; asked only where a payment names another than that of `publicUrl`. */
  host(): string | undefined
}

/**
 * Reads a payment and checks its terms and its signature. Only a payment whose signature holds may go on to the claim, so that
 * junk can't occupy somebody's nonce.
 *
 * @param header value of `PAYMENT-SIGNATURE` (version 2) or `X-PAYMENT` (version 1)
 * @returns at once where nothing has to be asked
 * @throws `invalid_payment`, `settlement_unavailable` with the reason of x402; or rejects with it
 */
export function presentPayment(
  header: string,
  version: 1 | 2,
  taken: Taken,
): PresentedPayment | Promise<PresentedPayment> {
  const { offers, payments, acceptV1 } = taken
  const bare = version === 1 && acceptV1 ? readBareTransaction(header) : undefined
  if (bare !== undefined) return presentBare(taken, header, bare)
  const read = readPayment(header)
  if (!read.ok) {
    throw new TollgateError('invalid_payment', read.message, { reason: 'invalid_payload', isUnread: true })
  }
  if (read.payment.x402Version === 1 && !acceptV1) {
    const refusal = refuse('invalid_x402_version', 'Expected a payment of x402 version 2, got version 1.')
    return presentFormer(payments, [read.payment], refusal)
  }
  const offer = select(offers, read.payment)
  if (offer === undefined) return presentFormer(payments, [read.payment], notTaken(offers))
  const fault = resourceFault(read.resourceUrl, taken)
  const checked = offer.settler.check(read.payment, offer.terms)
  return checked instanceof Promise
    ? checked.then((late) => accept(payments, read.payment, offer, late, fault))
    : accept(payments, read.payment, offer, checked, fault)
}

/**
 * Why a payment says itself that it is for another server: what its buyer was shown there was not this gateway's offer. What is no
 * address of the web, such as an MCP client's name of a tool, names no server.
 */
function resourceFault(url: string | undefined, { publicUrl, host }: Taken): TollgateError | null {
  if (url === undefined || (url.startsWith(publicUrl) && url[publicUrl.length] === '/')) return null
  const named = URL.parse(url)
  if (named === null || !['http:', 'https:'].includes(named.protocol)) return null
  const called = [publicUrl, `${named.protocol}//${host()}`]
  if (called.some((own) => URL.parse(own)?.host === named.host)) return null
  return refuse(
    'invalid_resource',
    `Expected a payment for ${publicUrl}; its resource.url is at ${named.origin}. Nothing was charged: pay the offer of this address.`,
  )
}

/**
 * A transaction without an envelope does not say which offer it is for: the first Solana offer that it pays exactly. What it
 * is then is a payment of version 1, with the same key as in any envelope. Its fee payer is the one of the 402, or, when the
 * buyer signed it wholly, the buyer: then the terms of this one payment name it.
 */
async function presentBare(
  { offers, payments }: Taken,
  transaction: string,
  { feePayer, isSelfPaid }: BareTransaction,
): Promise<PresentedPayment> {
  let refused: [PaymentPayload, Offer, Checked] | undefined
  for (const listed of offers) {
    const { scheme, network, extra } = listed.terms
    if (familyOf(network) !== 'solana') continue
    const offer = isSelfPaid
      ? { ...listed, terms: { ...listed.terms, extra: { ...extra, feePayer } } }
      : listed
    const payment: PaymentPayload = { x402Version: 1, scheme, network, payload: { transaction } }
    const checked = await offer.settler.check(payment, offer.terms)
    // Of the offers only one is of the transaction's token.
    if (checked.ok || checked.identity !== undefined) return accept(payments, payment, offer, checked)
    refused ??= [payment, offer, checked]
  }
  if (refused !== undefined) return accept(payments, ...refused)
  const notSolana = 'This link is not paid on Solana; the payment is a Solana transaction.'
  return presentFormer(payments, barePayments(transaction), refuse('invalid_network', notSolana))
}

/** @param refusal what is thrown for a payment that never was one here */
async function presentFormer(
  payments: Pick<Payments, 'find'>,
  readings: readonly PaymentPayload[],
  refusal: TollgateError,
): Promise<PresentedPayment> {
  for (const payload of readings) {
    const found = await formerPayment(payments, payload, refusal)
    if (found !== undefined) return found
  }
  throw refusal
}

/** @param fault why no new call can be bought by it, although its signature holds; a buyer who has bought one still gets it */
function accept(
  payments: Pick<Payments, 'find'>,
  payload: PaymentPayload,
  offer: Offer,
  checked: Checked,
  fault: TollgateError | null = null,
): PresentedPayment | Promise<PresentedPayment> {
  const { terms, settler, isClosed } = offer
  const { identity } = checked
  const found = (unclaimable: Error | null) => ({
    ...{ payload, terms, settler, identity: identity!, unclaimable },
  })
  if (checked.ok) return found(isClosed ? notOffered(settler.network) : fault)
  if (identity !== undefined) return found(isClosed ? notOffered(settler.network) : refusalOf(checked))
  const refusal =
    isClosed && !checked.transient
      ? notOffered(settler.network)
      : refusalOf(checked, { network: terms.network, ...payerOf(payload) })
  if (checked.isUnread) throw refusal
  // It may have been claimed while it passed: a contract wallet can withdraw a signature, and a facilitator calls a payment
  // that it has settled invalid.
  const named = { ...payload, accepted: { ...payload.accepted, asset: terms.asset } }
  return presentFormer(payments, payload.x402Version === 1 ? [named, payload] : [named], refusal)
}

const notOffered = (network: NetworkId) => {
  const where = familyOf(network) === 'solana' ? `Solana (${network})` : network
  return new TollgateError(
    'invalid_payment',
    `This link is not paid on ${where}: see the accepts of its 402.`,
    { reason: 'invalid_network', receipt: { network } },
  )
}

/** What the payment says it accepted only selects an entry; every term is taken from the link. */
function select(offers: readonly Offer[], payment: PaymentPayload): Offer | undefined {
  const network = payment.x402Version === 1 ? networkOfV1Name(payment.network) : payment.network
  const asset =
    payment.accepted !== undefined && Object.hasOwn(payment.accepted, 'asset')
      ? payment.accepted['asset']
      : undefined
  const onNetwork = offers.filter((o) => o.terms.network === network && o.terms.scheme === payment.scheme)
  return typeof asset === 'string'
    ? onNetwork.find((o) => o.terms.asset === asset || o.terms.asset.toLowerCase() === asset.toLowerCase())
    : onNetwork[0]
}

function notTaken(offers: readonly Offer[]): TollgateError {
  const open = offers.filter(({ isClosed }) => !isClosed)
  const accepted =
    open.map((o) => `${o.terms.scheme} on ${o.terms.network}`).join(', ') || 'nothing at the moment'
  return refuse('invalid_network', `Expected a payment by ${accepted}; the payment is for something else.`)
}

const refuse = (reason: string, message: string) => new TollgateError('invalid_payment', message, { reason })

/**
 * A refusal as an error: a fault of the gateway's or of the chain is 503, the payment's own is `invalid_payment`.
 *
 * @param receipt what is known of a payment that is not on the exchange
 */
export function refusalOf(
  { reason, message, transient, isUnread }: Refusal,
  receipt?: TollgateErrorOptions['receipt'],
): TollgateError {
  const options = { reason, ...(receipt !== undefined && { receipt }) }
  return transient
    ? new TollgateError('settlement_unavailable', message, { ...options, retryAfterSeconds: 5 })
    : new TollgateError('invalid_payment', message, { ...options, ...(isUnread && { isUnread }) })
}

/** Who an EVM payment says it is from, although its signature was not found to hold: as the public facilitators do. */
function payerOf({ payload }: PaymentPayload): { payer?: string } {
  const signed = payload['authorization'] ?? payload['permit2Authorization']
  const from = isObject(signed) ? own(signed, 'from') : undefined
  return typeof from === 'string' && /^0x[0-9a-fA-F]{40}$/.test(from) ? { payer: from } : {}
}
