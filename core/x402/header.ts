import { networkOfV1Name, v1NameOf } from '../domain/network.ts'
import { isObject, own, parseStrictJson } from './strictJson.ts'
import type { PaymentPayload, SettleResponse } from './types.ts'

/** Node refuses a request or an answer whose head is longer than 16 KiB (RFC 9110 sets no limit): none longer was sent. */
const MAX_HEADER_CHARS = 16_384

export type DecodedHeader =
  | { readonly ok: true; readonly value: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly message: string }

// ignoreBOM keeps the mark in the text, where the JSON reader refuses it.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Writes the value of `PAYMENT-REQUIRED`, `PAYMENT-SIGNATURE` or `PAYMENT-RESPONSE`: base64 of the UTF-8 JSON
 * (x402 v2, HTTP transport). `decodeHeader` reads it back.
 */
export function encodeHeader(value: unknown): string {
  return Buffer.from(JSON.stringify(value), 'utf8').toString('base64')
}

/**
 * Reads such a header: canonical base64, valid UTF-8, strict JSON, an object. Never throws; the message says which of
 * them failed and never repeats the value.
 *
 * @param maxChars longest header value that is looked at
 */
export function decodeHeader(text: string, maxChars: number = MAX_HEADER_CHARS): DecodedHeader {
  if (text.length > maxChars) return refused(`Expected at most ${maxChars} characters, got ${text.length}.`)
  const bytes = decodeStrictBase64(text, maxChars)
  if (bytes === undefined || bytes.length === 0) {
    return refused('Expected canonical base64 (RFC 4648, section 4), got something else.')
  }
  let json: string
  try {
    json = utf8.decode(bytes)
  } catch {
    return refused('Expected UTF-8 inside the base64, got other bytes.')
  }
  const parsed = parseStrictJson(json)
  if (!parsed.ok) return parsed
  const { value } = parsed
  if (!isObject(value)) {
    return refused('Expected a JSON object, got another kind of value.')
  }
  return { ok: true, value }
}

/**
 * Reads a header that a seller wrote, `PAYMENT-REQUIRED` or `PAYMENT-RESPONSE`: as {@link decodeHeader}, and without its
 * padding too, which some languages' encoders leave out and the reference client does not ask for, and in base64url (RFC
 * 4648, section 5). There is still one reading of the text, and whoever signs, signs what was read.
 */
export function decodeSellerHeader(value: string): DecodedHeader {
  const text = /[+/]/.test(value) ? value : value.replaceAll('-', '+').replaceAll('_', '/')
  const lacks = (4 - (text.length % 4)) % 4
  return decodeHeader(lacks < 3 && !text.endsWith('=') ? text + '='.repeat(lacks) : text)
}

const refused = (message: string): DecodedHeader => ({ ok: false, message })

/**
 * The receipt headers of an answer: `PAYMENT-RESPONSE` for v2, `X-PAYMENT-RESPONSE` for v1 with that version's network
 * name (x402 v2, HTTP transport, section "Settlement response").
 *
 * @returns flat `[name, value]`
 */
export function receiptHeaders(version: 1 | 2, receipt: SettleResponse): readonly string[] {
  if (version === 2) return ['PAYMENT-RESPONSE', encodeHeader(receipt)]
  return [
    'X-PAYMENT-RESPONSE',
    encodeHeader({ ...receipt, network: v1NameOf(receipt.network) ?? receipt.network }),
  ]
}

/**
 * An answer's headers for a client of the other version: the receipt under the name, and with the network's name, that this
 * one reads.
 *
 * @param headers flat, made by this gateway
 */
export function withReceiptIn(version: 1 | 2, headers: readonly string[]): readonly string[] {
  const name = version === 2 ? 'X-PAYMENT-RESPONSE' : 'PAYMENT-RESPONSE'
  const at = headers.indexOf(name)
  if (at === -1) return headers
  const receipt = JSON.parse(Buffer.from(headers[at + 1]!, 'base64').toString()) as SettleResponse
  const network = networkOfV1Name(receipt.network) ?? receipt.network
  return [
    ...headers.slice(0, at),
    ...receiptHeaders(version, { ...receipt, network }),
    ...headers.slice(at + 2),
  ]
}

export type ReadPayment =
  | {
      readonly ok: true
      readonly payment: PaymentPayload
      /** v2 only: the address that the client says it pays for. No signature covers it. */
      readonly resourceUrl?: string | undefined
    }
  | { readonly ok: false; readonly message: string }

/**
 * Reads `PAYMENT-SIGNATURE` (x402 v2) or `X-PAYMENT` (v1): strict base64, strict JSON, the envelope's own fields. What
 * stands inside `payload` is the settler's to judge. Never throws.
 *
 * @returns the payment, or words for the caller: what was expected and what came. They never repeat the header.
 */
export function readPayment(header: string): ReadPayment {
  const decoded = decodeHeader(header)
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
  const resource = own(envelope, 'resource')
  const url = isObject(resource) ? own(resource, 'url') : resource
  const resourceUrl = typeof url === 'string' ? url : undefined
  return { ok: true, payment: { x402Version: 2, scheme, network, payload, accepted }, resourceUrl }
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

const no = (message: string): ReadPayment => ({ ok: false, message: `In the payment header, ${message}.` })

/**
 * Decodes base64 in its one canonical form: standard alphabet, full padding, zero trailing bits, no whitespace
 * (RFC 4648, sections 3 and 4). Every other spelling of the same bytes is refused, because a payment that can be written
 * in two ways can pass a check in one of them and be stored under the other.
 *
 * @param maxBytes most decoded bytes that are accepted; longer text is refused before it is decoded
 * @returns the bytes, or undefined when the text is not canonical base64 or too long; the empty text is zero bytes
 *
 * @example decodeStrictBase64('AQI=', 16) // Uint8Array [1, 2]
 */
export function decodeStrictBase64(text: string, maxBytes: number): Uint8Array | undefined {
  if (text.length % 4 !== 0 || text.length > Math.ceil(maxBytes / 3) * 4) return undefined
  const bytes = Buffer.from(text, 'base64')
  // Node's decoder skips what it does not know; writing the bytes again shows whether anything was skipped.
  if (bytes.length > maxBytes || bytes.toString('base64') !== text) return undefined
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
}
