import { isDeepStrictEqual } from 'node:util'
import { decodeHeader } from '../../core/x402/header.ts'
import { isObject, own } from '../../core/x402/own.ts'
import { type ReadOffer, readEnvelope } from '../../core/x402/readEnvelope.ts'
import { type HttpAnswer, valuesOf } from './httpCall.ts'
import { parseBody } from './parseBody.ts'

/**
 * Reads the offer of a 402 (x402 v2, HTTP transport): one `PAYMENT-REQUIRED` header, a body that says the same or
 * nothing, a resource of the origin that was asked, no extension that wants more than a payment.
 *
 * An empty body or `{}` counts as saying nothing; the reference server sends that. Whatever else stands there must equal
 * the header, because people and other tools read the body, and the payment is made from the header.
 */
export function readOffer(answer: HttpAnswer, asked: URL): ReadOffer {
  const headers = valuesOf(answer.headers, 'payment-required')
  if (headers.length === 0) return refuse(whyNoHeader(answer))
  if (headers.length > 1) return refuse('the offer came twice in the head')
  const decoded = decodeHeader(headers[0]!)
  if (!decoded.ok) return refuse(`the PAYMENT-REQUIRED header is not readable. ${decoded.message}`)
  const offer = decoded.value
  if (own(offer, 'x402Version') !== 2) return refuse('x402Version in the header is not 2')
  const difference = compareBody(answer, offer)
  if (difference !== undefined) return refuse(difference)
  return readEnvelope(offer, asked)
}

function whyNoHeader(answer: HttpAnswer): string {
  const body = parseBody(answer.body)
  const isV1 = body.ok && isObject(body.value) && own(body.value, 'x402Version') === 1
  return isV1
    ? 'the seller speaks x402 version 1 only; this buyer pays version 2'
    : 'the 402 has no PAYMENT-REQUIRED header, so it is no x402 version 2 offer'
}

function compareBody(answer: HttpAnswer, offer: Readonly<Record<string, unknown>>): string | undefined {
  if (!answer.isWithinLimit || !answer.isWhole) return "the 402's body is too long or incomplete"
  if (valuesOf(answer.headers, 'content-encoding').some((v) => v.toLowerCase() !== 'identity')) {
    return "the 402's body is compressed, though that was not asked for"
  }
  if (answer.body.length === 0) return undefined
  const body = parseBody(answer.body)
  if (!body.ok) return `the 402's body is not readable. ${body.message}`
  if (isDeepStrictEqual(body.value, {}) || isDeepStrictEqual(body.value, offer)) return undefined
  return 'the body of the 402 and its PAYMENT-REQUIRED header say different things'
}

const refuse = (message: string): ReadOffer => ({ ok: false, message })
