import { type Readable, Transform } from 'node:stream'
import { TollgateError } from '../../core/errors/error.ts'
import { isUnknownAddress } from '../../core/http/caller.ts'
import { alike, beginsAlike, isDroppedFromRequest, nominatedBy } from '../../core/http/headerNames.ts'
import { LOOP_HEADER } from '../../core/http/loopMark.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { BuyerLeft } from './failure.ts'
import type { Pace } from './slots.ts'

// Builds the request to a seller, in the order in which it is sent: address, head, body.

/**
 * Maximum size of a body that is read whole, in bytes. Such a body usually arrives in one packet, and one write is cheaper than a
 * stream.
 */
const SMALL_BYTES = 65_536

/** Maximum encodings of a body that are applied one after the other. */
const MAX_CODINGS = 4

/** The part of a link's destination that is the same for each call. */
export interface Target {
  readonly origin: string
  /** Path without a trailing slash, to which a sub-path is appended. Empty for the root. */
  readonly basePath: string
  /** The link's own path, used if the call has no sub-path. */
  readonly rootPath: string
  /** Query of the link's own URL without the `?`. The caller's parameters follow it. */
  readonly baseQuery: string
}

export function targetOf(url: string): Target {
  const { origin, pathname, search } = new URL(url)
  return {
    origin,
    basePath: pathname.endsWith('/') ? pathname.slice(0, -1) : pathname,
    rootPath: pathname,
    baseQuery: search.slice(1),
  }
}

/**
 * The path and query of one call. Both have only one spelling, because `parseTarget` refuses all others, so they are joined as
 * text.
 */
export function pathOf(target: Target, subPath: string, query: string): string {
  const path = subPath === '' ? target.rootPath : target.basePath + subPath
  if (target.baseQuery === '') return path + query
  return query.length > 1 ? `${path}?${target.baseQuery}&${query.slice(1)}` : `${path}?${target.baseQuery}`
}

/**
 * Headers that are added to every request of a link: the loop mark, and the seller's own headers, which are decrypted once per link
 * version.
 */
export interface AddedHeaders {
  /** Names and values in turn. */
  readonly list: readonly string[]
  /** Names of the seller's headers, as `alike` spells them. The seller's headers replace the caller's. */
  readonly names: ReadonlySet<string>
}

/** An empty set that most links share, because they add no headers of the seller. */
const noNames: ReadonlySet<string> = new Set()

/** @param mark see {@link LoopMarks} */
export function addedHeaders(mark: string, headers: Readonly<Record<string, string>>): AddedHeaders {
  const entries = Object.entries(headers)
  const list = [LOOP_HEADER, mark, ...entries.flat()]
  return { list, names: entries.length === 0 ? noNames : new Set(entries.map(([name]) => alike(name))) }
}

/**
 * Rebuilds the caller's head for the seller. It drops headers that are hop-by-hop, listed in `Connection`, about payment, or about
 * the gateway's own origin.
 *
 * @param isBuffered true if the response will be wrapped or held, so that it must not arrive compressed
 * @returns names and values in turn
 */
export function requestHead(x: Exchange, added: AddedHeaders, isBuffered: boolean): string[] {
  const raw = x.transport.rawHeaders
  const nominated = nominatedBy(raw)
  const head: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!
    if (isDroppedFromRequest(name)) continue
    if (name.length === 14 && beginsAlike(name, 'content-length')) {
      // A header such as `Content_Length` is dropped, because only lenient readers would see it as a second length.
      if (!x.hasBody || name.toLowerCase() !== 'content-length') continue
    }
    if (isBuffered && name.length === 15 && beginsAlike(name, 'accept-encoding')) continue
    if (nominated?.has(name.toLowerCase())) continue
    if (added.names.size !== 0 && added.names.has(alike(name))) continue
    head.push(name, raw[i + 1]!)
  }
  // The value `unknown` is that of RFC 7239, section 6.2.
  head.push('X-Forwarded-For', isUnknownAddress(x.clientIp) ? 'unknown' : x.clientIp)
  if (!added.names.has('x-request-id')) head.push('X-Request-Id', x.requestId)
  if (isBuffered && !added.names.has('accept-encoding')) head.push('Accept-Encoding', 'identity')
  if (x.signedIn !== null) head.push('X-Signed-In-Wallet', x.signedIn.wallet)
  head.push(...added.list)
  return head
}

export type RequestBody = Buffer | Transform | null

/**
 * Reads a small body before the call takes a connection, because the caller may send the body slowly.
 *
 * @returns null if there is no such body
 * @throws {TollgateError} `bad_request` if fewer bytes than stated arrive
 */
export function readSmallBody(x: Exchange): Promise<unknown> | null {
  if (!x.hasBody || x.body !== null) return null
  return x.readBody(SMALL_BYTES)
}

/**
 * The body to send to the seller, which is the body that was already read, or a stream of at most `maxBytes`.
 *
 * @param pace measures how fast a stream arrives
 */
export function requestBody(x: Exchange, maxBytes: number, pace: Pace): RequestBody {
  return x.body !== null || !x.hasBody ? x.body : bounded(x.transport.body!, maxBytes, pace)
}

/** @throws {TollgateError} `payload_too_large` if the stated length of the body is larger than `maxBytes` */
export function assertStatedLength(x: Exchange, maxBytes: number): void {
  const bytes = x.body === null ? Number(x.header('content-length') ?? 0) : x.body.length
  if (bytes > maxBytes) throw tooLarge(maxBytes)
}

/** The registered encodings (RFC 9110, section 18.6) and the encodings that clients of object stores send. */
const acceptable = 'gzip, deflate, br, zstd, compress, aws-chunked, x-gzip, x-compress, identity'
const codings = acceptable.split(', ')

/**
 * Refuses a body in an unknown encoding, because the seller may misread the body or fail (RFC 9110, section 8.4). Other bodies are
 * forwarded as received.
 *
 * @throws {TollgateError} `unsupported_encoding`. The response's `Accept-Encoding` lists the known encodings
 */
export function assertKnownCoding(x: Exchange): void {
  const stated = x.header('content-encoding')
  if (stated === undefined || stated === 'gzip') return
  const named = stated.split(',').map((coding) => coding.trim().toLowerCase())
  // Empty members of a list have no meaning (RFC 9110, section 5.6.1).
  const real = named.filter((coding) => coding !== '')
  if (real.length <= MAX_CODINGS && real.every((coding) => codings.includes(coding))) return
  x.addHeader('Accept-Encoding', acceptable)
  throw new TollgateError(
    'unsupported_encoding',
    `Expected a Content-Encoding of ${acceptable}, at most ${MAX_CODINGS} of them, got another. You were not charged.`,
  )
}

/**
 * A stream that passes on the request's stream. The driver destroys its stream if the call fails. If that were the request's own
 * stream, it would destroy the connection on which the gateway has to send the error.
 */
function bounded(incoming: Readable, maxBytes: number, pace: Pace): Transform {
  let bytes = 0
  const body = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      if (bytes > maxBytes) return done(tooLarge(maxBytes))
      pace.moved(chunk.length)
      done(null, chunk)
      if (body.readableLength < body.readableHighWaterMark) pace.waits()
    },
    flush(done) {
      pace.rests()
      done()
    },
  })
  // The driver listens for errors only while it sends the body. At other times an error without a listener would end the process.
  body.on('error', () => {})
  pace.uploads(body)
  const brokenOff = () => body.destroy(new BuyerLeft('The caller broke off its request.'))
  // If the request was aborted before, its stream emits no further event.
  if (incoming.destroyed) brokenOff()
  incoming.once('error', brokenOff)
  incoming.once('close', () => {
    if (!incoming.readableEnded) brokenOff()
  })
  return incoming.pipe(body)
}

function tooLarge(maxBytes: number): TollgateError {
  return new TollgateError('payload_too_large', `Expected a body of at most ${maxBytes} bytes, got more.`)
}
