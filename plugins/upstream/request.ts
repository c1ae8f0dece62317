import { type Readable, Transform } from 'node:stream'
import { TollgateError } from '../../core/errors/error.ts'
import { isUnknownAddress } from '../../core/http/callerAddress.ts'
import { LOOP_HEADER } from '../../core/http/loopMark.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { alike, beginsAlike, isDroppedFromRequest, nominatedBy } from './dropped.ts'
import { BuyerLeft } from './failure.ts'
import type { Pace } from './pace.ts'

// What a seller is asked, in the order in which it goes out: address, head, body.

/** Bodies up to here are read whole: they come in one piece mostly, and one write is cheaper than a stream. */
const SMALL_BYTES = 65_536

/** Codings of a body, applied one over another. */
const MAX_CODINGS = 4

/** Where a link's calls go: everything that is the same for each of them. */
export interface Target {
  readonly origin: string
  /** Path without a trailing slash, so that a sub-path can follow; empty for the root. */
  readonly basePath: string
  /** The link's own path when a call has no sub-path. */
  readonly rootPath: string
  /** Query of the link's own URL, without the `?`; callers' parameters come after it. */
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

/** The path and query of one call: canonical already, so it is joined and never decoded. */
export function pathOf(target: Target, subPath: string, query: string): string {
  const path = subPath === '' ? target.rootPath : target.basePath + subPath
  if (target.baseQuery === '') return path + query
  return query.length > 1 ? `${path}?${target.baseQuery}&${query.slice(1)}` : `${path}?${target.baseQuery}`
}

/** What is added to every request of a link: the link's mark, and the seller's own credential, opened once per link version. */
export interface AddedHeaders {
  /** Flat. */
  readonly list: readonly string[]
  /** The seller's, as a careless reader takes them (`alike`); they replace the caller's. */
  readonly names: ReadonlySet<string>
}

/** Of most links, one for all of them. */
const noNames: ReadonlySet<string> = new Set()

/** @param mark see {@link LoopMarks} */
export function addedHeaders(mark: string, headers: Readonly<Record<string, string>>): AddedHeaders {
  const entries = Object.entries(headers)
  const list = [LOOP_HEADER, mark, ...entries.flat()]
  return { list, names: entries.length === 0 ? noNames : new Set(entries.map(([name]) => alike(name))) }
}

/**
 * Rebuilds the caller's head for the seller: what is hop-by-hop, nominated by `Connection`, about payment or about the
 * gateway's own origin stays behind.
 *
 * @param isBuffered the answer will be spliced or held, so it must not come compressed
 * @returns flat
 */
export function requestHead(x: Exchange, added: AddedHeaders, isBuffered: boolean): string[] {
  const raw = x.door.rawHeaders
  const nominated = nominatedBy(raw)
  const head: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!
    if (isDroppedFromRequest(name)) continue
    if (name.length === 14 && beginsAlike(name, 'content-length')) {
      // Under an odd name it would be a second length, to careless readers only.
      if (!x.hasBody || name.toLowerCase() !== 'content-length') continue
    }
    if (isBuffered && name.length === 15 && beginsAlike(name, 'accept-encoding')) continue
    if (nominated?.has(name.toLowerCase())) continue
    if (added.names.size !== 0 && added.names.has(alike(name))) continue
    head.push(name, raw[i + 1]!)
  }
  // RFC 7239, section 6.2.
  head.push('X-Forwarded-For', isUnknownAddress(x.clientIp) ? 'unknown' : x.clientIp)
  if (!added.names.has('x-request-id')) head.push('X-Request-Id', x.requestId)
  if (isBuffered && !added.names.has('accept-encoding')) head.push('Accept-Encoding', 'identity')
  head.push(...added.list)
  return head
}

export type RequestBody = Buffer | Transform | null

/**
 * Reads a small body whole, before a connection is taken for the call: a caller may take its time to send it.
 *
 * @returns null when there is none to read
 * @throws {TollgateError} `bad_request` when less than stated comes
 */
export function readSmallBody(x: Exchange): Promise<unknown> | null {
  if (!x.hasBody || x.body !== null) return null
  return x.readBody(SMALL_BYTES)
}

/**
 * The body to send to the seller: what has been read already, or a stream of at most `maxBytes`.
 *
 * @param pace is told how fast a stream comes
 */
export function requestBody(x: Exchange, maxBytes: number, pace: Pace): RequestBody {
  return x.body !== null || !x.hasBody ? x.body : bounded(x.door.body!, maxBytes, pace)
}

/** @throws {TollgateError} `payload_too_large` */
export function assertStatedLength(x: Exchange, maxBytes: number): void {
  const bytes = x.body === null ? Number(x.header('content-length') ?? 0) : x.body.length
  if (bytes > maxBytes) throw tooLarge(maxBytes)
}

/** Those that are registered (RFC 9110, section 18.6) and what clients of object stores send. */
const acceptable = 'gzip, deflate, br, zstd, compress, aws-chunked, x-gzip, x-compress, identity'
const codings = acceptable.split(', ')

/**
 * A body goes on as it came; but in a coding that nobody knows it is a call that can't succeed, or one that the seller
 * reads as something else (RFC 9110, section 8.4).
 *
 * @throws {TollgateError} `unsupported_encoding`; the answer's `Accept-Encoding` lists those that are known.
 */
export function assertKnownCoding(x: Exchange): void {
  const stated = x.header('content-encoding')
  if (stated === undefined || stated === 'gzip') return
  const named = stated.split(',').map((coding) => coding.trim().toLowerCase())
  // Empty members of a list count for nothing (RFC 9110, section 5.6.1).
  const real = named.filter((coding) => coding !== '')
  if (real.length <= MAX_CODINGS && real.every((coding) => codings.includes(coding))) return
  x.addHeader('Accept-Encoding', acceptable)
  throw new TollgateError(
    'unsupported_encoding',
    `Expected a Content-Encoding of ${acceptable}, at most ${MAX_CODINGS} of them, got another. You were not charged.`,
  )
}

/**
 * A copy of the request's stream, not the stream itself: the driver destroys what it was given when the call fails, and
 * with the request its connection, over which the error has yet to be answered.
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
  // The driver listens while it sends the body; an end before or after that must not end the process.
  body.on('error', () => {})
  pace.uploads(body)
  const brokenOff = () => body.destroy(new BuyerLeft('The caller broke off its request.'))
  // What broke off before anybody listened is not told again.
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
