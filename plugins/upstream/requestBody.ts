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
  if (x.body !== null) return x.body
  if (!x.hasBody) return null
  assertStatedLength(x, maxBytes)
  return readBody(x.req, SMALL_BYTES) ?? bounded(x, maxBytes)
}

/** @throws {TollgateError} `payload_too_large` */
export function assertStatedLength(x: Exchange, maxBytes: number): void {
  if (Number(x.req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
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
