import type { Reply } from '../http/replies.ts'
import type { PurchaseNote } from './purchase.ts'

/** A seller's complete response, received now or read from the database. */
export interface WholeResponse {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: Uint8Array
}

/** Maximum size of a response that is sent as one text, in bytes. A larger response is sent in pieces, which are not copied. */
const SMALL_BYTES = 16_384

/**
 * Assembles a paid response from the seller's body, the purchase's ids and the receipt. It inserts the bytes of the body into the
 * wrapper without parsing them, because parsing 100 KB would take 85 % of the time. Paid responses are private and never cached.
 *
 * @param receipt names and values in turn, see `receiptHeaders`
 * @param isStream true if the link streams its responses. A stored response must look the same as a streamed one
 */
export function paidReply(
  response: WholeResponse,
  mediaType: string,
  note: PurchaseNote,
  receipt: readonly string[],
  isStream: boolean,
): Reply {
  const kind = wrapKind(note, mediaType, response.headers, isStream)
  const status = paidStatus(response.status, kind)
  const headers = paidHeaders(response.headers, kind, note, receipt)
  const pieces = kind === 'pass' ? [response.body] : wrapped(response.body, kind, note)
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  // A response without a body states no length (RFC 9110, section 8.6).
  if (status !== 204) headers.push('Content-Length', String(length))
  return { status, headers, body: length > SMALL_BYTES ? pieces : joined(pieces) }
}

/** The status of a paid response. A 204 becomes a 200 if it is wrapped, because the wrapper is a body. */
export const paidStatus = (status: number, kind: WrapKind): number =>
  kind !== 'pass' && status === 204 ? 200 : status

/**
 * The head of a paid response. It has the seller's headers that still apply after wrapping and payment, then the ids and the
 * receipt. The caller adds `Content-Length`.
 *
 * @returns names and values in turn
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
 * The seller's headers, changed so that no cache stores the response. A CDN obeys its own `*-Cache-Control` (RFC 9213),
 * `Surrogate-Control` or `Edge-Control` before `Cache-Control`, so all of these are removed.
 *
 * @param isWrapped true if the body is not the seller's bytes, so that its type and validators are removed too
 * @returns names and values in turn, without `Content-Length`
 */
export function uncachedHeaders(sellers: readonly string[], isWrapped = false): string[] {
  const headers: string[] = []
  for (let i = 0; i < sellers.length; i += 2) {
    if (!isReplaced(sellers[i]!, isWrapped)) headers.push(sellers[i]!, sellers[i + 1]!)
  }
  headers.push('Cache-Control', 'private, no-store')
  return headers
}

/** Stands for an empty body in the wrapper. */
export const jsonNull = Buffer.from('null')

function wrapped(body: Uint8Array, kind: 'splice' | 'text', note: PurchaseNote): readonly Uint8Array[] {
  const { prefix, suffix } = note.wrap!
  return [prefix, kind === 'text' ? quoted(body) : spliceable(body), suffix]
}

/**
 * Joins the pieces as latin1 text, with one character per byte, because Node writes such a text together with the head
 * (bench/steps.ts).
 */
function joined(pieces: readonly Uint8Array[]): string {
  let text = ''
  for (const piece of pieces) {
    text += Buffer.from(piece.buffer, piece.byteOffset, piece.length).toString('latin1')
  }
  return text
}

/**
 * Bodies as JSON texts, by the bytes of stored responses. Concurrent requests for the same response share its bytes and this text,
 * because converting 8 MB takes 100 ms.
 */
const quotedBefore = new WeakMap<Uint8Array, Uint8Array>()

function quoted(body: Uint8Array): Uint8Array {
  const known = quotedBefore.get(body)
  if (known !== undefined) return known
  const text = Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8')
  const made = Buffer.from(JSON.stringify(text))
  if (body.length > SMALL_BYTES) quotedBefore.set(body, made)
  return made
}

/**
 * The part of a body that may be inserted into JSON. A body of only white space counts as empty. A byte order mark is removed,
 * because JSON allows it only at the start of a text (RFC 8259, section 8.1).
 */
function spliceable(body: Uint8Array): Uint8Array {
  const start = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? 3 : 0
  let i = start
  while (i < body.length && isJsonSpace(body[i]!)) i++
  if (i === body.length) return jsonNull
  return start === 0 ? body : body.subarray(start)
}

const isJsonSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** Whether the paid response replaces a header of the seller. */
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

/** Length of the shortest name that {@link cacheWord} matches, `Edge-Control`, in characters. Shorter names need no check. */
const MIN_CACHE_WORD_CHARS = 12
/**
 * Any spelling of a header that tells a cache how long to store a response. Some caches treat `_` and other characters like `-`.
 */
const cacheWord = /(?:^|[^a-z0-9])cache[^a-z0-9](?:control|ttl)$|^(?:surrogate|edge)[^a-z0-9]/i

/**
 * How a paid response of a media type is forwarded. `splice`: JSON is inserted into the wrapper byte by byte. `text`: text becomes
 * a JSON string in the wrapper, because clients parse the response as JSON. `pass`: the body is unchanged, and the ids are in
 * headers.
 */
export type WrapKind = 'splice' | 'text' | 'pass'

/**
 * @param headers names and values in turn. An encoded body (gzip …), a range, or a charset other than UTF-8 cannot be spliced, so
 *   it passes
 * @param isStream true if the response is forwarded as it arrives. Text then passes, because it cannot become a JSON string on the
 *   way
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
    // A range of a JSON text is not valid JSON.
    if (name.length === 13 && name.toLowerCase() === 'content-range') return 'pass'
    if (name.length === 12 && name.toLowerCase() === 'content-type' && foreignCharset.test(headers[i + 1]!))
      return 'pass'
  }
  return isJson ? 'splice' : 'text'
}

const foreignCharset = /charset\s*=\s*"?(?!utf-?8|us-ascii)[a-z0-9]/i
