import { networkOfV1Name, v1NameOf } from '../domain/network.ts'
import { readAllowancePermit } from './gasSponsoring.ts'
import { identifierForm, identifierName, readIdentifier } from './paymentIdentifier.ts'
import { isObject, own, parseStrictJson } from './strictJson.ts'
import type { PaymentPayload, SettleResponse } from './types.ts'

/**
 * Maximum length of a header, in characters. No longer header can arrive, because Node refuses a request or response with a head of
 * more than 16 KiB. RFC 9110 sets no limit.
 */
const MAX_HEADER_CHARS = 16_384

export type DecodedHeader =
  | { readonly ok: true; readonly value: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly message: string }

// `ignoreBOM` keeps a byte order mark in the text, so that the JSON reader refuses it.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Writes the value of `PAYMENT-REQUIRED`, `PAYMENT-SIGNATURE` or `PAYMENT-RESPONSE`, which is base64 of the UTF-8 JSON (x402 v2,
 * HTTP transport). `decodeHeader` reads such a value.
 */
export function encodeHeader(value: unknown): string {
  return Buffer.from(JSON.stringify(value), 'utf8').toString('base64')
}

/**
 * Reads a value of {@link encodeHeader}. It must be strict base64 of valid UTF-8 of strict JSON of an object. Never throws. The
 * message says which of these failed, and never repeats the value.
 *
 * @param maxChars maximum length of the header value
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
 * Reads a header that a seller wrote, `PAYMENT-REQUIRED` or `PAYMENT-RESPONSE`. Unlike {@link decodeHeader}, it accepts base64url
 * (RFC 4648, section 5) and base64 without padding, because some encoders write them and the reference client accepts them. The
 * text still has only one reading, and the buyer signs what was read.
 */
export function decodeSellerHeader(value: string): DecodedHeader {
  const text = /[+/]/.test(value) ? value : value.replaceAll('-', '+').replaceAll('_', '/')
  const lacks = (4 - (text.length % 4)) % 4
  return decodeHeader(lacks < 3 && !text.endsWith('=') ? text + '='.repeat(lacks) : text)
}

const refused = (message: string): DecodedHeader => ({ ok: false, message })

/**
 * The receipt headers of a response. They are `PAYMENT-RESPONSE` for v2, and `X-PAYMENT-RESPONSE` with v1's network name for v1
 * (x402 v2, HTTP transport, section "Settlement response").
 *
 * @returns name and value in turn
 */
export function receiptHeaders(version: 1 | 2, receipt: SettleResponse): readonly string[] {
  if (version === 2) return ['PAYMENT-RESPONSE', encodeHeader(receipt)]
  return [
    'X-PAYMENT-RESPONSE',
    encodeHeader({ ...receipt, network: v1NameOf(receipt.network) ?? receipt.network }),
  ]
}

/**
 * Changes the headers of a response for a client of the other x402 version. The receipt gets that version's header name and network
 * name.
 *
 * @param headers names and values in turn, which this gateway has made
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
      /** The address for which the client says it pays (v2 only). No signature covers it. */
      readonly resourceUrl?: string | undefined
    }
  | { readonly ok: false; readonly message: string }

/**
 * Reads `PAYMENT-SIGNATURE` (x402 v2) or `X-PAYMENT` (v1), in strict base64 and strict JSON, with the envelope's own fields. The
 * settler checks `payload`. Never throws.
 *
 * @returns the payment, or a message for the caller with what was expected and what came. The message never repeats the header
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
  const extensions = own(envelope, 'extensions')
  const allowancePermit = readAllowancePermit(extensions)
  const payment = {
    x402Version: 2,
    scheme,
    network,
    payload,
    accepted,
    ...(allowancePermit && { allowancePermit }),
  } as const
  const identifier = readIdentifier(extensions)
  if (identifier === undefined) return { ok: true, payment, resourceUrl }
  if (identifier === null)
    return no(`extensions[${JSON.stringify(identifierName)}].info.id must be a string of ${identifierForm}`)
  return { ok: true, payment: { ...payment, identifier }, resourceUrl }
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
 * Decodes base64 in its one strict form, with the standard alphabet, full padding, zero trailing bits and no whitespace (RFC 4648,
 * sections 3 and 4). Every other spelling of the same bytes is refused, because a payment with two spellings could pass a check in
 * one form and be stored in the other.
 *
 * @param maxBytes maximum decoded bytes. A longer text is refused before it is decoded
 * @returns the bytes. Undefined if the text is too long or has another form. The empty text gives zero bytes
 *
 * @example decodeStrictBase64('AQI=', 16) // Uint8Array [1, 2]
 */
export function decodeStrictBase64(text: string, maxBytes: number): Uint8Array | undefined {
  if (text.length % 4 !== 0 || text.length > Math.ceil(maxBytes / 3) * 4) return undefined
  const bytes = Buffer.from(text, 'base64')
  // Node's decoder skips invalid characters. Encoding the bytes again shows whether it skipped any.
  if (bytes.length > maxBytes || bytes.toString('base64') !== text) return undefined
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
}
