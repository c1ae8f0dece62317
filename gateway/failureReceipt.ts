import { isTollgateError } from '../core/errors/error.ts'
import type { Exchange } from '../core/plugin/exchange.ts'
import { receiptHeaders } from '../core/x402/header.ts'

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
 * A payment that could not be read has no network and no payer: the network is empty, as the transaction is where there is
 * none, because strict readers want both fields; the payer is left out.
 *
 * @param error what was thrown; null for a reply that a plugin gave
 * @param status of the answer
 * @returns flat; empty when there is nothing to say
 */
export function failureReceipt(x: Presented, error: unknown, status: number): readonly string[] {
  // Whoever was charged has a receipt, also of a call that failed.
  if (x.settlement !== null && x.purchase !== null) return [...x.purchase.headers, ...x.settlement.headers]
  const known = isTollgateError(error) ? error : undefined
  // On chain and not in the books yet. What was thrown for that says so itself; anything else knows nothing of it.
  if (x.settlement !== null && known?.receipt === undefined) return x.settlement.headers
  if (!refuses(status)) return []
  const payer = x.payment?.identity.payer ?? known?.receipt?.payer
  return receiptHeaders(x.payment?.payload.x402Version ?? x.x402Version, {
    success: false,
    errorReason:
      known?.reason ?? known?.code ?? (error === null ? repliedReason(x, status) : 'internal_error'),
    transaction: x.settlement?.transaction ?? known?.receipt?.transaction ?? '',
    network: x.payment?.identity.network ?? known?.receipt?.network ?? '',
    ...(payer !== undefined && { payer }),
    ...(x.payment !== null && { amount: x.payment.identity.amountAtomic.toString() }),
  })
}

const repliedReason = ({ errorCode }: Presented, status: number): string =>
  errorCode ?? (status === 402 ? 'payment_required' : 'request_refused')
