import { familyOf, type NetworkId, networkOfV1Name } from '../../core/domain/network.ts'
import type { StoredAnswer } from '../../core/domain/payment.ts'
import { isTollgateError, TollgateError, type TollgateErrorOptions } from '../../core/errors/error.ts'
import type { Payments } from '../../core/payments/payments.ts'
import { settlementPending } from '../../core/payments/refusals.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Hook } from '../../core/plugin/gateway.ts'
import { linkNotFound } from '../../core/ports/refusals.ts'
import type { Checked, Refusal } from '../../core/ports/settler.ts'
import { type BareTransaction, readBareTransaction } from '../../core/x402/bareTransaction.ts'
import { readPayment, receiptHeaders } from '../../core/x402/header.ts'
import { isObject, own } from '../../core/x402/strictJson.ts'
import type { PaymentPayload } from '../../core/x402/types.ts'
import type { Challenges } from './challenge.ts'
import { barePayments, formerPayment } from './formerPayment.ts'
import type { Offer } from './offers.ts'

/**
 * The pay phase of one link: no payment, the 402; a payment, its terms and its signature. Only a payment whose signature
 * holds goes on to the claim, so that junk can't occupy somebody's nonce.
 */
export function payHook(
  offers: readonly Offer[],
  challenges: Challenges,
  payments: Pick<Payments, 'find'>,
  acceptV1: boolean,
): Hook {
  const unpaid = (x: Exchange) => (x.x402Version === 1 && acceptV1 ? challenges.v1 : challenges.v2)
  return (x) => {
    // HEAD is never a way past the price: it gets the 402, and node leaves the body out.
    if (x.paymentHeader === null || x.method === 'HEAD') {
      const { looking } = challenges
      if (looking !== undefined) return looking.then(() => unpaid(x))
      return unpaid(x)
    }
    const bare = x.x402Version === 1 && acceptV1 ? readBareTransaction(x.paymentHeader) : undefined
    if (bare !== undefined) return payBare(x, offers, payments, x.paymentHeader, bare)
    const read = readPayment(x.paymentHeader)
    if (!read.ok) throw refuse('invalid_payload', read.message)
    if (read.payment.x402Version === 1 && !acceptV1) {
      throw refuse('invalid_x402_version', 'Expected a payment of x402 version 2, got version 1.')
    }
    const offer = select(offers, read.payment)
    if (offer === undefined) return payFormerly(x, payments, [read.payment], notTaken(offers))
    const checked = offer.settler.check(read.payment, offer.terms)
    return checked instanceof Promise
      ? checked.then((late) => accept(x, read.payment, offer, late))
      : accept(x, read.payment, offer, checked)
  }
}

/**
 * A transaction without an envelope does not say which offer it is for: the first Solana offer that it pays exactly. What it
 * is then is a payment of version 1, with the same key as in any envelope. Its fee payer is the one of the 402, or, when the
 * buyer signed it wholly, the buyer: then the terms of this one payment name it.
 */
async function payBare(
  x: Exchange,
  offers: readonly Offer[],
  payments: Pick<Payments, 'find'>,
  transaction: string,
  { feePayer, isSelfPaid }: BareTransaction,
): Promise<void> {
  let refused: Parameters<typeof accept> | undefined
  for (const listed of offers) {
    const { scheme, network, extra } = listed.terms
    if (familyOf(network) !== 'solana') continue
    const offer = isSelfPaid
      ? { ...listed, terms: { ...listed.terms, extra: { ...extra, feePayer } } }
      : listed
    const payment: PaymentPayload = { x402Version: 1, scheme, network, payload: { transaction } }
    const checked = await offer.settler.check(payment, offer.terms)
    // Of the offers only one is of the transaction's token.
    if (checked.ok || checked.identity !== undefined) return accept(x, payment, offer, checked)
    refused ??= [x, payment, offer, checked]
  }
  if (refused !== undefined) return accept(...refused)
  const notSolana = 'This link is not paid on Solana; the payment is a Solana transaction.'
  await payFormerly(x, payments, barePayments(transaction), refuse('invalid_network', notSolana))
}

/** @param refusal what is thrown for a payment that never was one here */
async function payFormerly(
  x: Exchange,
  payments: Pick<Payments, 'find'>,
  readings: readonly PaymentPayload[],
  refusal: TollgateError,
): Promise<void> {
  for (const payload of readings) {
    x.payment = (await formerPayment(payments, payload, refusal)) ?? null
    if (x.payment !== null) return
  }
  throw refusal
}

/**
 * The pay phase where no link is any more: whoever has paid for a call of one that was there gets what is owed to him, and
 * nobody else learns anything.
 */
export function repeatsOnly(pay: Hook): Hook {
  return async (x) => {
    try {
      await pay(x)
    } catch (error) {
      throw isTollgateError(error) && error.code === 'invalid_payment' ? linkNotFound() : error
    }
    if (x.payment === null) throw linkNotFound()
    x.payment = { ...x.payment, unclaimable: linkNotFound() }
  }
}

function accept(x: Exchange, payload: PaymentPayload, offer: Offer, checked: Checked): void {
  const { terms, settler, isClosed } = offer
  const { identity } = checked
  if (isClosed) {
    const unclaimable = notOffered(settler.network)
    if (identity === undefined) throw !checked.ok && checked.transient ? refusal(checked) : unclaimable
    x.payment = { payload, terms, settler, identity, unclaimable }
  } else if (checked.ok) {
    x.payment = { payload, terms, settler, identity: checked.identity, unclaimable: null }
  } else {
    if (identity === undefined) throw refusal(checked, { network: terms.network, ...payerOf(payload) })
    x.payment = { payload, terms, settler, identity, unclaimable: refusal(checked) }
  }
}

const notOffered = (network: NetworkId) => {
  const where = familyOf(network) === 'solana' ? `Solana (${network})` : network
  return refuse('invalid_network', `This link is not paid on ${where}: see the accepts of its 402.`)
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
 * A refusal as an error: our own or the chain's trouble is 503, the payment's is 400.
 *
 * @param receipt what is known of a payment that is not on the exchange
 */
function refusal(
  { reason, message, transient }: Refusal,
  receipt?: TollgateErrorOptions['receipt'],
): TollgateError {
  const options = { reason, ...(receipt !== undefined && { receipt }) }
  return transient
    ? new TollgateError('settlement_unavailable', message, { ...options, retryAfterSeconds: 5 })
    : new TollgateError('invalid_payment', message, options)
}

/** Who an EVM payment says it is from, although its signature was not found to hold: as the public facilitators do. */
function payerOf({ payload }: PaymentPayload): { payer?: string } {
  const signed = payload['authorization'] ?? payload['permit2Authorization']
  const from = isObject(signed) ? own(signed, 'from') : undefined
  return typeof from === 'string' && /^0x[0-9a-fA-F]{40}$/.test(from) ? { payer: from } : {}
}

/** The verify phase: asks before the seller works. A payment that has settled already is being served late. */
export function verifyHook(payments: Payments): Hook {
  return async (x) => {
    if (x.settlement !== null) return
    const verified = await payments.verify(x.claim!)
    if (!verified.ok) throw refusal(verified)
  }
}

/** The settle phase: charges the price, and says what a settlement that did not go through means for the buyer. */
export function settleHook(payments: Payments, challenges: Challenges): Hook {
  return async (x) => {
    if (x.settlement !== null) return
    const { payload, identity } = x.payment!
    const version = payload.x402Version
    const receipt = (success: boolean, transaction: string, amountAtomic: bigint, errorReason?: string) =>
      receiptHeaders(version, {
        ...{ success, transaction, network: identity.network, payer: identity.payer },
        amount: amountAtomic.toString(),
        ...(errorReason !== undefined && { errorReason }),
      })
    const unpaid = (reason: string, transaction: string) => {
      x.errorCode = reason
      return challenges.because(version, reason, receipt(false, transaction, identity.amountAtomic, reason))
    }
    const end = await payments.settle(x.claim!, answerToKeep(x))
    switch (end.status) {
      case 'settled': {
        const transaction = end.transaction ?? ''
        x.settlement = { transaction, headers: receipt(true, transaction, end.chargedAtomic) }
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
        return unpaid(end.reason, end.transaction)
      case 'rejected':
        if (end.transient) throw refusal({ ok: false, ...end })
        return unpaid(end.reason, '')
    }
  }
}

function answerToKeep({ answer }: Exchange): StoredAnswer | null {
  if (answer === null || answer.tunnel !== null) return null
  return { status: answer.status, headers: answer.headers, body: answer.body }
}
