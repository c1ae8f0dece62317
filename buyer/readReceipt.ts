import { isSameAddress } from '../core/domain/address.ts'
import { familyOf } from '../core/domain/network.ts'
import { decodeSellerHeader } from '../core/x402/header.ts'
import { own } from '../core/x402/strictJson.ts'
import type { SignedPayment } from './buyer.ts'
import { distinct, type HttpAnswer, valuesOf } from './httpCall.ts'

export type SellerReceipt =
  /** No PAYMENT-RESPONSE header came. */
  | { readonly kind: 'none' }
  /** The seller says that it settled in this transaction; only the chain can say that it did. */
  | { readonly kind: 'settled'; readonly transaction: string }
  /** The seller says that it did not settle. */
  | { readonly kind: 'not_settled'; readonly reason: string }
  /** It can not be read, or it is not about this payment. */
  | { readonly kind: 'wrong'; readonly problem: string }

/** Reads the `PAYMENT-RESPONSE` of an answer (x402 v2, HTTP transport) and compares it with what was signed. */
export function readReceipt(answer: HttpAnswer, payment: SignedPayment): SellerReceipt {
  const headers = distinct(valuesOf(answer.headers, 'payment-response'))
  if (headers.length === 0) return { kind: 'none' }
  if (headers.length > 1) return wrong('came twice')
  const decoded = decodeSellerHeader(headers[0]!)
  if (!decoded.ok) return wrong(`is not readable. ${decoded.message}`)
  const receipt = decoded.value
  const success = own(receipt, 'success')
  if (success === false)
    return { kind: 'not_settled', reason: String(own(receipt, 'errorReason') ?? '').slice(0, 200) }
  if (success !== true) return wrong('does not say whether it succeeded')
  if (own(receipt, 'network') !== payment.network) return wrong('names another network')
  const payer = own(receipt, 'payer')
  if (payer !== undefined && !isSameAddress(familyOf(payment.network), payer, payment.payer))
    return wrong('names another payer')
  const amount = own(receipt, 'amount')
  if (amount !== undefined && amount !== '' && amount !== payment.amount) return wrong('names another amount')
  const transaction = own(receipt, 'transaction')
  if (typeof transaction !== 'string' || transaction.length > 100) return wrong('names no transaction')
  return { kind: 'settled', transaction }
}

const wrong = (problem: string): SellerReceipt => ({
  kind: 'wrong',
  problem: `the PAYMENT-RESPONSE header ${problem}`,
})
