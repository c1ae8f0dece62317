import { isTollgateError } from '../core/errors/error.ts'
import type { Exchange } from '../core/plugin/exchange.ts'
import { receiptHeaders } from '../core/x402/receipt.ts'

/** Answers that refuse a payment. What the seller did (502, 504) and what has nothing to do with it need no receipt. */
const refusing: ReadonlySet<number> = new Set([400, 402, 409, 429, 500, 503])

/**
 * The receipt of a call that came with a payment and failed (x402 v2, HTTP transport, section "Settlement response"), for
 * clients that read headers only: why the payment was refused, or, where it is charged, the receipt of the charge.
 *
 * A payment that could not be read has no network and no payer: the network is empty, as the transaction is where there is
 * none, because strict readers want both fields; the payer is left out.
 *
 * @param error what was thrown
 * @param status of the answer
 * @returns flat; empty when there is nothing to say
 */
export function failureReceipt(
  x: Pick<Exchange, 'payment' | 'settlement' | 'purchase' | 'x402Version'>,
  error: unknown,
  status: number,
): readonly string[] {
  // Whoever was charged has a receipt, also of a call that failed.
  if (x.settlement !== null && x.purchase !== null) return [...x.purchase.headers, ...x.settlement.headers]
  if (!refusing.has(status)) return []
  const known = isTollgateError(error) ? error : undefined
  const payer = x.payment?.identity.payer ?? known?.receipt?.payer
  return receiptHeaders(x.payment?.payload.x402Version ?? x.x402Version, {
    success: false,
    errorReason: known?.reason ?? known?.code ?? 'internal_error',
    transaction: x.settlement?.transaction ?? known?.receipt?.transaction ?? '',
    network: x.payment?.identity.network ?? known?.receipt?.network ?? '',
    ...(payer !== undefined && { payer }),
    ...(x.payment !== null && { amount: x.payment.identity.amountAtomic.toString() }),
  })
}
