import { MAX_ANSWER_HEAD_BYTES } from '../../core/http/answerHeadLimit.ts'
import { contentTypeOf, noContentType } from '../../core/http/contentType.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { isDroppedFromAnswer, nominatedBy } from './dropped.ts'
import { AnswerRefused, headTooLarge } from './failure.ts'

/** A seller's answer head, filtered for the buyer. */
export interface AnswerHead {
  /** Flat; without `Content-Length`, which whoever sends the body states. */
  readonly headers: string[]
  /** Stated length of the body in bytes; -1 when not stated. */
  readonly contentLength: number
  /** Lower case, without parameters; empty when not stated, or not one type. */
  readonly mediaType: string
}

/**
 * What keeps a page of a seller's from acting for the gateway's origin, where the checkout and the other sellers live: no
 * answer is guessed to be a page, and whatever could be one gets an origin of its own (HTML, "sandboxing").
 */
const unguessed = ['X-Content-Type-Options', 'nosniff'] as const
const confined = ['Content-Security-Policy', 'sandbox allow-scripts allow-forms allow-downloads'] as const

/**
 * Challenges (RFC 9110, section 11.6.1) that are answered by themselves. Browsers ask for a password in the gateway's name, and
 * send it to every seller from then on; agents pay, without a purchase, whomever the challenge names.
 */
const answeredUnasked = /(?:^|,)[\t ]*(?:basic|digest|negotiate|ntlm|payment|l402|lsat|x402)(?=[\t ,]|$)/i

/**
 * Rebuilds the seller's head for the buyer. All sellers share one origin, so what would speak for that origin (cookies,
 * HSTS, CORS, CSP) stays behind, and so does everything about payment.
 *
 * @param raw flat names and values as undici hands them over
 */
export function answerHead(raw: readonly (Buffer | string)[]): AnswerHead {
  const flat: string[] = new Array(raw.length)
  for (let i = 0; i < raw.length; i++) {
    const part = raw[i]!
    flat[i] = typeof part === 'string' ? part : part.toString('latin1')
  }
  const nominated = nominatedBy(flat)
  const headers: string[] = []
  let contentLength = -1
  let type: string | null = null
  for (let i = 0; i < flat.length; i += 2) {
    const name = flat[i]!
    if (isDroppedFromAnswer(name) || nominated?.has(name.toLowerCase())) continue
    const value = flat[i + 1]!
    switch (name.length) {
      case 12:
        if (name.toLowerCase() !== 'content-type') break
        // Two of them are one with a comma to whoever reads them (RFC 9110, section 5.3).
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
  return { headers, contentLength, mediaType }
}

/**
 * The most that the gateway's own headers of a paid answer take, names and values: the receipt (at most 430 bytes), the ids of the
 * purchase and of the request, `Cache-Control`, the wrapper's `Content-Type`, and what Node adds.
 */
const OWN_HEAD_BYTES = 800
/** At least this much is left for CORS and rate limits: a repeat from a page has headers that the first call did not have. */
const MIN_EXTRA_BYTES = 400

/** A head without these means something else, or lets a seller's page act for the gateway's origin. */
const isKept = /^(?:x-)?content-/i

/**
 * The seller's head of a paid answer, with room for what the gateway adds. Before the charge a head without that room is refused; after
 * it, the longest headers are left out, because an answer that lacks a header is worth more than one that can't be read.
 *
 * @param headers flat, already filtered
 * @throws {AnswerRefused}
 */
export function fittedHead(
  headers: string[],
  { extraHeaders, settlement }: Pick<Exchange, 'extraHeaders' | 'settlement'>,
): string[] {
  const most = MAX_ANSWER_HEAD_BYTES - OWN_HEAD_BYTES - Math.max(MIN_EXTRA_BYTES, bytesOf(extraHeaders ?? []))
  let bytes = bytesOf(headers)
  if (bytes <= most) return headers
  if (settlement === null) throw new AnswerRefused(headTooLarge)
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
  if (bytes > most) throw new AnswerRefused(headTooLarge)
  return headers.filter((_, i) => !dropped.has(i - (i % 2)))
}

/** As Node's parser and undici count. Header texts are Latin-1: one byte for each character. */
function bytesOf(headers: readonly string[]): number {
  let bytes = 0
  for (const text of headers) bytes += text.length
  return bytes
}
