import { isDeepStrictEqual } from 'node:util'
import { decodeSellerHeader } from '../core/x402/header.ts'
import { parseBody } from '../core/x402/parseBody.ts'
import { type ReadOffer, readEnvelope } from '../core/x402/readEnvelope.ts'
import { isObject, own } from '../core/x402/strictJson.ts'
import { distinct, type HttpAnswer, valuesOf } from './httpCall.ts'

/** The terms of an entry (x402 v2, section 5.1.2); whatever else stands in one is the server's own, or version 1's. */
const termNames = ['scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds', 'extra'] as const

const utf8 = new TextDecoder('utf-8')

/**
 * Reads the offer of a 402 (x402 v2, HTTP transport): one `PAYMENT-REQUIRED` header, a body that does not contradict it, a
 * resource of the origin that was asked, no extension that wants more than a payment.
 *
 * The payment is made from the header, as all clients of version 2 do. People and other tools read the body: where it has
 * an offer of version 2 of its own, its terms must be those of the header. An HTML page, the fields of version 1 or an
 * error text beside the header are the server's own business.
 */
export function readOffer(answer: HttpAnswer, asked: URL): ReadOffer {
  const headers = distinct(valuesOf(answer.headers, 'payment-required'))
  if (headers.length === 0) return refuse(whyNoHeader(answer))
  if (headers.length > 1) return refuse('the offer came twice in the head')
  const decoded = decodeSellerHeader(headers[0]!)
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
  const strict = parseBody(answer.body)
  const theirs = strict.ok ? strict.value : readLeniently(answer.body)
  if (!isObject(theirs)) return undefined
  const entries = entriesOf(theirs)
  if (entries === undefined) return undefined
  // What can be read in two ways would agree in one of them.
  if (!strict.ok) return `the 402's body is not readable. ${strict.message}`
  const [resource, ours] = [own(theirs, 'resource'), own(offer, 'resource')]
  const isSameResource =
    !isObject(resource) || (isObject(ours) && isDeepStrictEqual(own(resource, 'url'), own(ours, 'url')))
  if (isSameResource && isDeepStrictEqual(entries, entriesOf(offer))) return undefined
  return 'the body of the 402 and its PAYMENT-REQUIRED header say different things'
}

/** What other readers would see in bytes that are no strict JSON: in a key that stands twice, the last one. */
function readLeniently(body: Uint8Array): unknown {
  try {
    return JSON.parse(utf8.decode(body))
  } catch {
    return undefined
  }
}

/** The terms of each entry of version 2; undefined when there is no offer of that version. */
function entriesOf(offer: Readonly<Record<string, unknown>>): object[] | undefined {
  const [version, accepts] = [own(offer, 'x402Version'), own(offer, 'accepts')]
  if (version === 1 || !Array.isArray(accepts)) return undefined
  const entries = accepts.filter(version === 2 ? isNotV1Entry : isV2Entry)
  return entries.length === 0 && (version !== 2 || accepts.length > 0) ? undefined : entries.map(termsOf)
}

/** Version 1 names the price of an entry `maxAmountRequired`; one body may serve clients of both. */
const isNotV1Entry = (entry: unknown): boolean =>
  !isObject(entry) || own(entry, 'amount') !== undefined || own(entry, 'maxAmountRequired') === undefined

const isV2Entry = (entry: unknown): boolean =>
  isObject(entry) && own(entry, 'amount') !== undefined && own(entry, 'payTo') !== undefined

const termsOf = (entry: unknown): object =>
  isObject(entry) ? Object.fromEntries(termNames.map((name) => [name, own(entry, name)])) : { entry }

const refuse = (message: string): ReadOffer => ({ ok: false, message })
