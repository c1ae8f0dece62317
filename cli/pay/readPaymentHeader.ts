import { isDeepStrictEqual } from 'node:util'
import type { Order } from '../../adapters/chains/buyer/buyer.ts'
import { decodeHeader } from '../../core/x402/header.ts'
import { isObject, own } from '../../core/x402/own.ts'

export type ReadPaymentHeader =
  | { readonly ok: true; readonly payload: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly message: string }

/**
 * Reads a `PAYMENT-SIGNATURE` that somebody else made: x402 version 2, for the very resource and the very entry that were
 * ordered, with nothing beside them. What its payload pays is for the chain's own check.
 */
export function readPaymentHeader(header: unknown, { resource, entry }: Order): ReadPaymentHeader {
  if (typeof header !== 'string') return refuse('it has no payment_header')
  const decoded = decodeHeader(header)
  if (!decoded.ok) return refuse(`its payment_header is not readable. ${decoded.message}`)
  const payment = decoded.value
  if (own(payment, 'x402Version') !== 2) return refuse('the payment is not of x402 version 2')
  if (!isDeepStrictEqual(own(payment, 'resource'), resource))
    return refuse('the payment is for another resource')
  if (!isDeepStrictEqual(own(payment, 'accepted'), entry)) return refuse('the payment is for another offer')
  const payload = own(payment, 'payload')
  if (!isObject(payload)) return refuse('the payment has no payload')
  if (Object.keys(payment).length !== 4) return refuse('the payment holds more than was ordered')
  return { ok: true, payload }
}

const refuse = (message: string): ReadPaymentHeader => ({ ok: false, message })
