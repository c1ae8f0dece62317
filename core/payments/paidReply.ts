import type { PurchaseNote } from '../plugin/exchange.ts'
import type { Reply } from '../plugin/reply.ts'

/** A seller's whole answer, fresh or from the store. */
export interface WholeAnswer {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: Uint8Array
}

/** Up to here an answer is put together as one text; a larger one goes out in its pieces, which copies nothing. */
const SMALL_BYTES = 16_384

/**
 * Puts a paid answer together: the seller's bytes, wrapped by splicing (never parsed: at 100 KB parsing costs 85 %),
 * the ids, the receipt. Paid answers are private and never cached.
 *
 * @param receipt flat headers, see `receiptHeaders`
 * @param isStream the link hands answers over as they come, and this is a kept one: it must look the same
 */
export function paidReply(
  answer: WholeAnswer,
  mediaType: string,
  note: PurchaseNote,
  receipt: readonly string[],
  isStream: boolean,
): Reply {
  const kind = wrapKind(note, mediaType, answer.headers, isStream)
  const status = paidStatus(answer.status, kind)
  const headers = paidHeaders(answer.headers, kind, note, receipt)
  const pieces = kind === 'pass' ? [answer.body] : wrapped(answer.body, kind, note)
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  // RFC 9110, section 8.6: an answer that has no body states no length.
  if (status !== 204) headers.push('Content-Length', String(length))
  return { status, headers, body: length > SMALL_BYTES ? pieces : joined(pieces) }
}

/** An answer without a body gets one by being wrapped. */
export const paidStatus = (status: number, kind: WrapKind): number =>
  kind !== 'pass' && status === 204 ? 200 : status

/**
 * The head of a paid answer: the seller's, without what the wrapping or the payment makes untrue, then the ids and the
 * receipt. `Content-Length` is left to whoever knows it.
 *
 * @returns flat
 */
export function paidHeaders(
  sellers: readonly string[],
  kind: WrapKind,
  note: PurchaseNote,
  receipt: readonly string[],
): string[] {
  const isWrapped = kind !== 'pass'
  const headers = uncachedHeaders(sellers, isWrapped)
  if (isWrapped) headers.push('Content-Type', 'application/json; charset=utf-8')
  headers.push(...note.headers, ...receipt)
  return headers
}

/**
 * The seller's head for one buyer and no cache. A CDN obeys its own `*-Cache-Control` (RFC 9213), `Surrogate-Control` or
 * `Edge-Control` before `Cache-Control`, so none of them may cross.
 *
 * @param isWrapped the body is not the seller's bytes: its type and validators are left out too
 * @returns flat; without `Content-Length`
 */
export function uncachedHeaders(sellers: readonly string[], isWrapped = false): string[] {
  const headers: string[] = []
  for (let i = 0; i < sellers.length; i += 2) {
    if (!isReplaced(sellers[i]!, isWrapped)) headers.push(sellers[i]!, sellers[i + 1]!)
  }
  headers.push('Cache-Control', 'private, no-store')
  return headers
}

/** What stands for an empty body inside the wrapper. */
export const jsonNull = Buffer.from('null')

function wrapped(body: Uint8Array, kind: 'splice' | 'text', note: PurchaseNote): readonly Uint8Array[] {
  const { prefix, suffix } = note.wrap!
  return [prefix, kind === 'text' ? quoted(body) : spliceable(body), suffix]
}

/** As latin1 text, one char a byte: node writes it with the head in one piece (bench/wrap.ts). */
function joined(pieces: readonly Uint8Array[]): string {
  let text = ''
  for (const piece of pieces) {
    text += Buffer.from(piece.buffer, piece.byteOffset, piece.length).toString('latin1')
  }
  return text
}

/** Those who ask for the same kept answer at once share its bytes, and what is made of them: 8 MB of text take 100 ms. */
const quotedBefore = new WeakMap<Uint8Array, Uint8Array>()

function quoted(body: Uint8Array): Uint8Array {
  const known = quotedBefore.get(body)
  if (known !== undefined) return known
  const text = Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8')
  const made = Buffer.from(JSON.stringify(text))
  if (body.length > SMALL_BYTES) quotedBefore.set(body, made)
  return made
}

/** A body of nothing but white space is empty, and a byte order mark may stand at a text's start only (RFC 8259, section 8.1). */
function spliceable(body: Uint8Array): Uint8Array {
  const start = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? 3 : 0
  let i = start
  while (i < body.length && isJsonSpace(body[i]!)) i++
  if (i === body.length) return jsonNull
  return start === 0 ? body : body.subarray(start)
}

const isJsonSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** Headers that the paid answer states itself. */
function isReplaced(name: string, isWrapped: boolean): boolean {
  if (name.length >= MIN_CACHE_WORD_CHARS && cacheWord.test(name)) return true
  switch (name.length) {
    case 14:
      return name.toLowerCase() === 'content-length'
    case 13:
      return isWrapped && name.toLowerCase() === 'last-modified'
    case 12:
      return isWrapped && name.toLowerCase() === 'content-type'
    case 7:
      return name.toLowerCase() === 'expires'
    case 4:
      return isWrapped && name.toLowerCase() === 'etag'
    default:
      return false
  }
}

/** Of `Edge-Control`; shorter names need not be looked through. */
const MIN_CACHE_WORD_CHARS = 12
/** Any spelling of what tells a cache how long to keep an answer: careless readers take `_` and others for `-`. */
const cacheWord = /(?:^|[^a-z0-9])cache[^a-z0-9](?:control|ttl)$|^(?:surrogate|edge)[^a-z0-9]/i

/**
 * How a paid answer of a media type is handed over: JSON is spliced into the wrapper byte by byte, text becomes a JSON
 * string (clients parse every answer as JSON), everything else passes as it is with the ids in headers.
 */
export type WrapKind = 'splice' | 'text' | 'pass'

/**
 * @param headers flat; an encoded body (gzip …), a range, or a charset other than UTF-8 can't be spliced and passes
 * @param isStream the answer goes out as it comes: text can't become a JSON string on the way, so it passes
 */
export function wrapKind(
  note: PurchaseNote,
  mediaType: string,
  headers: readonly string[],
  isStream: boolean,
): WrapKind {
  if (note.wrap === null) return 'pass'
  const isJson = mediaType === 'application/json' || mediaType.endsWith('+json')
  const isText = !isStream && mediaType.startsWith('text/') && mediaType !== 'text/event-stream'
  if (!isJson && !isText) return 'pass'
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!
    if (name.length === 16 && name.toLowerCase() === 'content-encoding') return 'pass'
    // A part of a JSON text is none.
    if (name.length === 13 && name.toLowerCase() === 'content-range') return 'pass'
    if (name.length === 12 && name.toLowerCase() === 'content-type' && foreignCharset.test(headers[i + 1]!))
      return 'pass'
  }
  return isJson ? 'splice' : 'text'
}

const foreignCharset = /charset\s*=\s*"?(?!utf-?8|us-ascii)[a-z0-9]/i
