import { MAX_ANSWER_HEAD_BYTES } from '../../core/http/answerHeadLimit.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { AnswerRefused, headTooLarge } from './failure.ts'

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
