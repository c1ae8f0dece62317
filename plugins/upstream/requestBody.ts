import { Transform } from 'node:stream'
import { TollgateError } from '../../core/errors/error.ts'
import { readBody } from '../../core/http/readBody.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { BuyerLeft } from './failure.ts'

/** Bodies up to here are read whole: they come in one piece mostly, and one write is cheaper than a stream. */
const SMALL_BYTES = 65_536

export type RequestBody = Buffer | Transform | null

/**
 * The body to send to the seller: what a plugin has read already, a small one read whole, or a stream of at most
 * `maxBytes`.
 *
 * @throws {TollgateError} `payload_too_large` when more is stated; a stream ends with it when more comes.
 */
export function requestBody(x: Exchange, maxBytes: number): RequestBody | Promise<RequestBody> {
  if (!x.hasBody) return x.body
  assertStatedLength(x, maxBytes)
  if (x.body !== null) return x.body
  return readBody(x.req, SMALL_BYTES) ?? bounded(x, maxBytes)
}

/** @throws {TollgateError} `payload_too_large` */
export function assertStatedLength(x: Exchange, maxBytes: number): void {
  if (Number(x.req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
}

/** Those that are registered (RFC 9110, section 18.6) and what clients of object stores send. */
const acceptable = 'gzip, deflate, br, zstd, compress, aws-chunked, x-gzip, x-compress, identity'
const codings = acceptable.split(', ')
/** Applied one over another. */
const MAX_CODINGS = 4

/**
 * A body goes on as it came; but in a coding that nobody knows it is a call that can't succeed, or one that the seller
 * reads as something else (RFC 9110, section 8.4).
 *
 * @throws {TollgateError} `unsupported_encoding`; the answer's `Accept-Encoding` lists those that are known.
 */
export function assertKnownCoding(x: Exchange): void {
  const stated = x.req.headers['content-encoding']
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
function bounded(x: Exchange, maxBytes: number): Transform {
  let bytes = 0
  const body = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      if (bytes > maxBytes) done(tooLarge(maxBytes))
      else done(null, chunk)
    },
  })
  const brokenOff = () => body.destroy(new BuyerLeft('The caller broke off its request.'))
  // What broke off before anybody listened is not told again.
  if (x.req.destroyed) brokenOff()
  x.req.once('error', brokenOff)
  x.req.once('aborted', brokenOff)
  return x.req.pipe(body)
}

function tooLarge(maxBytes: number): TollgateError {
  return new TollgateError('payload_too_large', `Expected a body of at most ${maxBytes} bytes, got more.`)
}
