import { contentTypeOf, noContentType } from '../../core/http/body.ts'
import {
  headerFilter,
  hopHeaders,
  nominatedBy,
  ownIdHeaders,
  paymentHeaders,
} from '../../core/http/headerNames.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { MAX_ANSWER_HEAD_BYTES } from '../../core/ports/egress.ts'
import { headTooLarge, ResponseRefused } from './failure.ts'

/** The head of a seller's response, filtered for the buyer. */
export interface ResponseHead {
  /** Names and values in turn, without `Content-Length`, which the sender of the body adds. */
  readonly headers: string[]
  /** Stated length of the body in bytes, -1 if the seller states none. */
  readonly contentLength: number
  /** Media type in lower case, without parameters. Empty if the seller states none, or more than one. */
  readonly mediaType: string
  /** Values of `Settlement-Overrides`, which is not in `headers`. Null if there is none. */
  readonly overrides: readonly string[] | null
}

/**
 * Headers that keep a seller's page from acting for the gateway's origin, which the checkout and other sellers share. The first
 * stops browsers from guessing that a response is a page. The second gives every page an origin of its own (HTML, "sandboxing").
 */
const unguessed = ['X-Content-Type-Options', 'nosniff'] as const
const confined = ['Content-Security-Policy', 'sandbox allow-scripts allow-forms allow-downloads'] as const

/**
 * Challenges (RFC 9110, section 11.6.1) to which clients respond automatically. A browser prompts for a password in the gateway's
 * name, and then sends the password to every seller. An agent pays any payee that the challenge names, without a purchase.
 */
const answeredUnasked = /(?:^|,)[\t ]*(?:basic|digest|negotiate|ntlm|payment|l402|lsat|x402)(?=[\t ,]|$)/i

/**
 * Rebuilds the seller's head for the buyer. All sellers share one origin, so the gateway drops headers that affect the whole origin
 * (cookies, HSTS, CORS, CSP). It also drops headers about payment.
 *
 * @param raw names and values in turn, as undici passes them
 */
export function responseHead(raw: readonly (Buffer | string)[]): ResponseHead {
  const flat: string[] = new Array(raw.length)
  for (let i = 0; i < raw.length; i++) {
    const part = raw[i]!
    flat[i] = typeof part === 'string' ? part : part.toString('latin1')
  }
  const nominated = nominatedBy(flat)
  const headers: string[] = []
  let contentLength = -1
  let type: string | null = null
  let overrides: string[] | null = null
  for (let i = 0; i < flat.length; i += 2) {
    const name = flat[i]!
    const value = flat[i + 1]!
    if (isDroppedFromResponse(name) || nominated?.has(name.toLowerCase())) {
      if (name.length === 20 && name.toLowerCase() === 'settlement-overrides') {
        overrides ??= []
        overrides.push(value)
      }
      continue
    }
    switch (name.length) {
      case 12:
        if (name.toLowerCase() !== 'content-type') break
        // Readers combine two headers of this name by a comma (RFC 9110, section 5.3).
        type = type === null || type === value ? value : `${type}, ${value}`
        continue
      case 14:
        if (name.toLowerCase() !== 'content-length') break
        contentLength = Number(value)
        continue
      case 16:
        if (name.toLowerCase() === 'www-authenticate' && answeredUnasked.test(value)) continue
        break
    }
    headers.push(name, value)
  }
  const { mediaType, isInert } = type === null ? noContentType : contentTypeOf(type)
  if (type !== null) headers.push('Content-Type', type)
  headers.push(unguessed[0], unguessed[1])
  if (!isInert) headers.push(confined[0], confined[1])
  return { headers, contentLength, mediaType, overrides }
}

/**
 * Maximum size of the gateway's own headers of a paid response, names and values, in bytes. These are the receipt without a
 * signature (at most 430 bytes), the ids of purchase and request, `Cache-Control`, the wrapper's `Content-Type`, and the headers that Node adds.
 */
const OWN_HEAD_BYTES = 800
/** Minimum bytes that are left for CORS and rate limits. A repeat from a page has such headers even if the first call had none. */
const MIN_EXTRA_BYTES = 400

/**
 * Headers that are never dropped. Without them the body would have another meaning, or a seller's page could act for the gateway's
 * origin.
 */
const isKept = /^(?:x-)?content-/i

/**
 * The seller's head of a paid response, with room for the headers that the gateway adds. A head without that room is refused before
 * the charge. After the charge, the longest headers are dropped, because an incomplete head is better than a head that no client
 * can read.
 *
 * @param headers names and values in turn, already filtered
 * @throws {ResponseRefused} before the charge, if the head is too large
 */
export function fittedHead(
  headers: string[],
  {
    extraHeaders,
    settlement,
    receiptSigning,
  }: Pick<Exchange, 'extraHeaders' | 'settlement' | 'receiptSigning'>,
): string[] {
  const own = OWN_HEAD_BYTES + (receiptSigning?.maxBytes ?? 0)
  const most = MAX_ANSWER_HEAD_BYTES - own - Math.max(MIN_EXTRA_BYTES, bytesOf(extraHeaders ?? []))
  let bytes = bytesOf(headers)
  if (bytes <= most) return headers
  if (settlement === null) throw new ResponseRefused(headTooLarge)
  const lines: { readonly at: number; readonly bytes: number }[] = []
  for (let at = 0; at < headers.length; at += 2) {
    if (!isKept.test(headers[at]!)) lines.push({ at, bytes: headers[at]!.length + headers[at + 1]!.length })
  }
  const dropped = new Set<number>()
  for (const line of lines.sort((a, b) => b.bytes - a.bytes)) {
    if (bytes <= most) break
    dropped.add(line.at)
    bytes -= line.bytes
  }
  if (bytes > most) throw new ResponseRefused(headTooLarge)
  return headers.filter((_, i) => !dropped.has(i - (i % 2)))
}

/**
 * The size of headers in bytes, as Node's parser and undici count it. Each character is one byte, because header texts are Latin-1.
 */
function bytesOf(headers: readonly string[]): number {
  let bytes = 0
  for (const text of headers) bytes += text.length
  return bytes
}

/**
 * Headers that a browser, a proxy or a wallet applies to the whole origin, which all sellers share. They concern cookies, caches,
 * reports, permissions, logins and other addresses.
 */
const originNames = [
  'accept-ch',
  'accept-ch-lifetime',
  'activate-storage-access',
  'alt-svc',
  'cache-group-invalidation',
  'cache-groups',
  'clear-site-data',
  'critical-ch',
  'expect-ct',
  'i2p-location',
  'idp-signin-status',
  'nel',
  'observe-browsing-topics',
  'onion-location',
  'origin-agent-cluster',
  'origin-policy',
  'origin-trial',
  'p3p',
  'public-key-pins',
  'public-key-pins-report-only',
  'refresh',
  'report-to',
  'reporting-endpoints',
  'service-worker-allowed',
  'set-cookie',
  'set-cookie2',
  'set-login',
  'speculation-rules',
  'strict-transport-security',
  'supports-loading-mode',
  'use-as-dictionary',
  'x-allow-fledge',
  'x-content-type-options',
  'x-i2p-location',
  'x-permitted-cross-domain-policies',
  'x-purchase-id',
  'x-review-token',
  // Headers by which a server in front of the gateway sends one of its own files instead.
  'x-lighttpd-send-file',
  'x-litespeed-location',
  'x-reproxy-url',
  'x-sendfile',
  'x-sendfile2',
  // Headers by which a server in front of the gateway empties its cache, including other sellers' responses.
  'x-litespeed-purge',
  'x-litespeed-purge2',
]

/** Whether a header of the seller's response is not sent to the buyer. @param name in any case */
export const isDroppedFromResponse = headerFilter(
  [...hopHeaders, ...paymentHeaders, ...originNames, ...ownIdHeaders],
  [
    'access-control-',
    'ad-auction-',
    'attribution-reporting-',
    'content-security-policy',
    'payment-',
    'private-aggregation-',
    'sec-session-',
    'secure-session-',
    'shared-storage-',
    'x-accel-',
  ],
)
