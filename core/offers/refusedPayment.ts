import type { NetworkId } from '../domain/network.ts'
import { isTollgateError } from '../errors/error.ts'
import { type ErrorEnvelope, envelopeOf, type Reply } from '../http/replies.ts'
import type { PresentedPayment } from '../payments/payments.ts'
import type { PurchaseNote } from '../payments/purchase.ts'
import { receiptHeaders } from '../x402/header.ts'

/** The offer in the response to a refused payment. */
export interface FreshOffer {
  /** Network of the first entry, for the receipt of a payment without a known network. Undefined while nothing is offered. */
  readonly network: NetworkId | undefined
  /**
   * Whether the link is offered by payment channels. Their clients request a refund by GET, also from a link without this method.
   */
  readonly hasChannels?: boolean | undefined
  /**
   * The 402 for a refused payment, or the 412 for a payer that has to allow Permit2 first. The reason is the offer's `error`, and the body contains both offer and error envelope.
   *
   * @param below path and query after the link's address, as received
   * @returns undefined while nothing is payable, because a client cannot use an empty offer
   */
  refused(version: 1 | 2, envelope: ErrorEnvelope, below: string): Reply | undefined
}

/**
 * The response to a payment that was read and refused. It is a 402 with a new offer, so that the client can correct its payment
 * (x402 v2, HTTP transport). Calls of links, calls of tools and payment sessions use it.
 *
 * @param version x402 version of the payment
 * @returns undefined for every other error, or if nothing is offered. The response is then the plain error envelope
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

/** Whether an error response refuses the payment. A failure of the seller (502, 504) does not. */
const refuses = (status: number): boolean => status >= 400 && status !== 502 && status !== 504

/** The known facts of a call that came with a payment. */
export interface Presented {
  /** x402 version that the caller uses. */
  readonly x402Version: 1 | 2
  /** Null until the payment has been read. */
  readonly payment: PresentedPayment | null
  /** Null until the payment has been charged. */
  readonly settlement: { readonly transaction: string; readonly headers: readonly string[] } | null
  /** Null until the purchase is in the ledger. */
  readonly purchase: Pick<PurchaseNote, 'headers'> | null
  /** The error code of the response. Null if a plugin sent the reply. */
  readonly errorCode: string | null
}

/** The facts of a call that reached no link's pipeline. */
export const unread = (x402Version: 1 | 2): Presented => ({
  x402Version,
  payment: null,
  settlement: null,
  purchase: null,
  errorCode: null,
})

/**
 * The receipt of a call with a payment that failed (x402 v2, HTTP transport, section "Settlement response"), for clients that read
 * only headers. It contains the reason for the refusal or, if the payment was charged, the receipt of the charge.
 *
 * Strict readers require a network and a transaction. If there is no transaction, its field is empty. If the payment names no
 * network of this gateway, the receipt has the first network that is offered, and no payer.
 *
 * @param error the thrown error. Null for a reply that a plugin sent
 * @param status status of the response
 * @param offered the first network that is offered. Undefined if nothing can be paid
 * @returns names and values in turn, empty if there is nothing to report
 */
export function failureReceipt(
  x: Presented,
  error: unknown,
  status: number,
  offered: NetworkId | undefined,
): readonly string[] {
  // A charged buyer gets the receipt of the charge, even if the call failed.
  if (x.settlement !== null && x.purchase !== null) return [...x.purchase.headers, ...x.settlement.headers]
  const known = isTollgateError(error) ? error : undefined
  // The charge is on chain, but not in the ledger yet. The error that reports this has its own receipt, and other errors have none.
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
