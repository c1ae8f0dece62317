import { decodeHeader } from './header.ts'
import type { PaymentPayload } from './types.ts'

/** Longest payment header that is read: Node's own limit for a whole head (RFC 9110 sets none). */
export const MAX_PAYMENT_HEADER_CHARS = 16_384

export type ReadPayment =
  | { readonly ok: true; readonly payment: PaymentPayload }
  | { readonly ok: false; readonly message: string }

/**
 * Reads `PAYMENT-SIGNATURE` (x402 v2) or `X-PAYMENT` (v1): strict base64, strict JSON, the envelope's own fields. What
 * stands inside `payload` is the settler's to judge. Never throws.
 *
 * @returns the payment, or words for the caller: what was expected and what came. They never repeat the header.
 */
export function readPayment(header: string): ReadPayment {
  const decoded = decodeHeader(header, MAX_PAYMENT_HEADER_CHARS)
  if (!decoded.ok) return decoded
  const envelope = decoded.value
  const payload = own(envelope, 'payload')
  if (!isObject(payload)) return no('payload must be an object with the signed payment')
  const version = own(envelope, 'x402Version')
  if (version === 2) return readV2(envelope, payload)
  if (version === 1) return readV1(envelope, payload)
  return no('x402Version must be the number 2 (or 1)')
}

function readV2(
  envelope: Readonly<Record<string, unknown>>,
  payload: Readonly<Record<string, unknown>>,
): ReadPayment {
  const accepted = own(envelope, 'accepted')
  if (!isObject(accepted)) return no('accepted must be the entry of accepts that the payment is for')
  const scheme = own(accepted, 'scheme')
  const network = own(accepted, 'network')
  if (typeof scheme !== 'string' || typeof network !== 'string') {
    return no('accepted.scheme and accepted.network must be strings')
  }
  return { ok: true, payment: { x402Version: 2, scheme, network, payload, accepted } }
}

function readV1(
  envelope: Readonly<Record<string, unknown>>,
  payload: Readonly<Record<string, unknown>>,
): ReadPayment {
  const scheme = own(envelope, 'scheme')
  const network = own(envelope, 'network')
  if (typeof scheme !== 'string' || typeof network !== 'string')
    return no('scheme and network must be strings')
  return { ok: true, payment: { x402Version: 1, scheme, network, payload } }
}

/** Own properties only, so that nothing is read from a prototype. */
function own(object: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const no = (message: string): ReadPayment => ({ ok: false, message: `In the payment header, ${message}.` })
