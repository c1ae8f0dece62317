import { networkOfV1Name, v1NameOf } from '../domain/network.ts'
import { decodeStrictBase64 } from './strictBase64.ts'
import { parseStrictJson } from './strictJson.ts'
import type { SettleResponse } from './types.ts'

/** Node refuses a request or an answer whose head is longer than 16 KiB, so a longer value could not have been sent. */
const DEFAULT_MAX_CHARS = 16_384

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
export function decodeHeader(text: string, maxChars: number = DEFAULT_MAX_CHARS): DecodedHeader {
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
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return refused('Expected a JSON object, got another kind of value.')
  }
  return { ok: true, value: value as Record<string, unknown> }
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
