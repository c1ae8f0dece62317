import type { NetworkId } from '../domain/network.ts'
import { isTollgateError } from '../errors/error.ts'
import { type ErrorEnvelope, envelopeOf } from '../http/errorReply.ts'
import type { Exchange } from '../plugin/exchange.ts'
import type { Reply } from '../plugin/reply.ts'
import { receiptHeaders } from './header.ts'

/** What is offered to the next payment, for the answer to one that is refused. */
export interface FreshOffer {
  /** Network of the first entry, for a receipt whose payment names none that is known. Undefined while nothing is offered. */
  readonly network: NetworkId | undefined
  /**
   * The 402 of a refused payment: its reason is the offer's own `error`, and the offer stands beside the envelope in the body.
   *
   * @param below path and query behind the address, as they were sent
   * @returns undefined while nothing can be paid: an empty offer helps no client
   */
  refused(version: 1 | 2, envelope: ErrorEnvelope, below: string): Reply | undefined
}

/**
 * Answers a payment that was read and refused: 402 with a fresh offer, so that its client can correct itself (x402 v2, HTTP
 * transport). The one place for calls of links, calls of tools and payment sessions.
 *
 * @param version of x402 that the payment is written in
 * @returns undefined for every other error, and where there is nothing to offer: the plain envelope answers it
 */
export function refusedReply(
  error: unknown,
  requestId: string,
  offer: FreshOffer | undefined,
  version: 1 | 2,
  below: string,
): Reply | undefined {
  if (!isTollgateError(error) || error.code !== 'invalid_payment' || error.isUnread) return undefined
  return offer?.refused(version, envelopeOf(error, requestId), below)
}

/** What the seller did (502, 504) refuses no payment. */
const refuses = (status: number): boolean => status >= 400 && status !== 502 && status !== 504

/** What is known of a call that came with a payment. */
export type Presented = Pick<Exchange, 'payment' | 'settlement' | 'purchase' | 'x402Version' | 'errorCode'>

/** Of a call that came to no link's program. */
export const unread = (x402Version: 1 | 2): Presented => ({
  ...{ x402Version, payment: null, settlement: null, purchase: null, errorCode: null },
})

/**
 * The receipt of a call that came with a payment and failed (x402 v2, HTTP transport, section "Settlement response"), for
 * clients that read headers only: why the payment was refused, or, where it is charged, the receipt of the charge.
 *
 * Strict readers want a network and a transaction: the transaction is empty where there is none, and a payment that names no
 * network that is known here gets the one that is offered first. The payer of such a payment is left out.
 *
 * @param error what was thrown; null for a reply that a plugin gave
 * @param status of the answer
 * @param offered the network that is offered first; undefined where the gateway can be paid on none
 * @returns flat; empty when there is nothing to say
 */
export function failureReceipt(
  x: Presented,
  error: unknown,
  status: number,
  offered: NetworkId | undefined,
): readonly string[] {
  // A charged buyer gets the receipt of the charge, also for a call that failed.
  if (x.settlement !== null && x.purchase !== null) return [...x.purchase.headers, ...x.settlement.headers]
  const known = isTollgateError(error) ? error : undefined
  // On chain and not in the ledger yet. The error that says so has a receipt of its own; other errors have none.
  if (x.settlement !== null && known?.receipt === undefined) return x.settlement.headers
  if (!refuses(status)) return []
  const network = x.payment?.identity.network ?? known?.receipt?.network ?? offered
  if (network === undefined) return []
  const payer = x.payment?.identity.payer ?? known?.receipt?.payer
  return receiptHeaders(x.payment?.payload.x402Version ?? x.x402Version, {
    success: false,
    errorReason:
      known?.reason ?? known?.code ?? (error === null ? repliedReason(x, status) : 'internal_error'),
    transaction: x.settlement?.transaction ?? known?.receipt?.transaction ?? '',
    network,
    ...(payer !== undefined && { payer }),
    ...(x.payment !== null && { amount: x.payment.identity.amountAtomic.toString() }),
  })
}

const repliedReason = ({ errorCode }: Presented, status: number): string =>
  errorCode ?? (status === 402 ? 'payment_required' : 'request_refused')
