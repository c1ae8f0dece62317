import { isDeepStrictEqual } from 'node:util'
import { formatAmount, parseAmount } from '../core/domain/money.ts'
import { type ReadOffer, readEnvelope } from '../core/x402/envelope.ts'
import { decodeSellerHeader } from '../core/x402/header.ts'
import { type OfferTerms, USD_DECIMALS, worthInUsd } from '../core/x402/offerTerms.ts'
import { isObject, own, parseBody } from '../core/x402/strictJson.ts'
import { callOnce, distinct, type HttpCall, HttpFailure, type HttpResponse, valuesOf } from './httpCall.ts'
import type { PayOutcome } from './payReport.ts'

const tenfold = 10n

export interface Price {
  /** Value of the payment in USD, as a decimal string, rounded up. */
  readonly usd: string
  readonly isAboveCap: boolean
  readonly isWithinTenfold: boolean
}

/**
 * Price of an offer in USD, compared with the cap.
 *
 * @param capUsd decimal string
 * @throws {TollgateError} `VALIDATION_ERROR` if the cap is not a decimal number
 */
export function priceInUsd(terms: OfferTerms, capUsd: string): Price {
  const worth = worthInUsd(terms)
  const cap = parseAmount(capUsd, USD_DECIMALS)
  return {
    usd: formatAmount(worth, USD_DECIMALS, 2),
    isAboveCap: worth > cap,
    isWithinTenfold: worth <= cap * tenfold,
  }
}

/** The names of an entry's terms (x402 v2, section 5.1.2). Other fields are the server's own or belong to version 1. */
const termNames = ['scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds', 'extra'] as const

const utf8 = new TextDecoder('utf-8')

/**
 * Reads the offer of a 402 (x402 v2, HTTP transport). Requires one `PAYMENT-REQUIRED` header, a body that does not contradict it, a
 * resource on the requested origin, and no extension that needs more than a payment. The buyer pays by the header, as all clients
 * of version 2 do. People and other tools read the body. If the body contains a version 2 offer, its terms must therefore equal
 * those of the header. An HTML page, version 1 fields or an error text in the body are allowed.
 */
export function readOffer(response: HttpResponse, requested: URL): ReadOffer {
  const headers = distinct(valuesOf(response.headers, 'payment-required'))
  if (headers.length === 0) return refuse(whyNoHeader(response))
  if (headers.length > 1) return refuse('the PAYMENT-REQUIRED header is repeated')
  const decoded = decodeSellerHeader(headers[0]!)
  if (!decoded.ok) return refuse(`the PAYMENT-REQUIRED header is not readable. ${decoded.message}`)
  const offer = decoded.value
  if (own(offer, 'x402Version') !== 2) return refuse('x402Version in the header is not 2')
  const difference = compareBody(response, offer)
  if (difference !== undefined) return refuse(difference)
  return readEnvelope(offer, requested)
}

function whyNoHeader(response: HttpResponse): string {
  const body = parseBody(response.body)
  const isV1 = body.ok && isObject(body.value) && own(body.value, 'x402Version') === 1
  return isV1
    ? 'the seller supports x402 version 1 only, but this buyer pays version 2'
    : 'the 402 has no PAYMENT-REQUIRED header, so it is not an x402 version 2 offer'
}

function compareBody(response: HttpResponse, offer: Readonly<Record<string, unknown>>): string | undefined {
  if (!response.isWithinLimit || !response.isWhole) return "the 402's body is too long or incomplete"
  if (valuesOf(response.headers, 'content-encoding').some((v) => v.toLowerCase() !== 'identity')) {
    return "the 402's body is compressed although the request did not allow it"
  }
  const strict = parseBody(response.body)
  const theirs = strict.ok ? strict.value : readLeniently(response.body)
  if (!isObject(theirs)) return undefined
  const entries = entriesOf(theirs)
  if (entries === undefined) return undefined
  // Such a body can be read in two ways, and might agree with the header in only one of them.
  if (!strict.ok) return `the 402's body is not readable. ${strict.message}`
  const [resource, ours] = [own(theirs, 'resource'), own(offer, 'resource')]
  const isSameResource =
    !isObject(resource) || (isObject(ours) && isDeepStrictEqual(own(resource, 'url'), own(ours, 'url')))
  if (isSameResource && isDeepStrictEqual(entries, entriesOf(offer))) return undefined
  return 'the body of the 402 contradicts its PAYMENT-REQUIRED header'
}

/** What lenient readers see in bytes that are not strict JSON. If a key is repeated, they see its last value. */
function readLeniently(body: Uint8Array): unknown {
  try {
    return JSON.parse(utf8.decode(body))
  } catch {
    return undefined
  }
}

/** The terms of each version 2 entry. Undefined if there is no offer of version 2. */
function entriesOf(offer: Readonly<Record<string, unknown>>): object[] | undefined {
  const [version, accepts] = [own(offer, 'x402Version'), own(offer, 'accepts')]
  if (version === 1 || !Array.isArray(accepts)) return undefined
  const entries = accepts.filter(version === 2 ? isNotV1Entry : isV2Entry)
  return entries.length === 0 && (version !== 2 || accepts.length > 0) ? undefined : entries.map(termsOf)
}

/** Whether an entry is not of version 1, in which the price is `maxAmountRequired`. One body may serve clients of both versions. */
const isNotV1Entry = (entry: unknown): boolean =>
  !isObject(entry) || own(entry, 'amount') !== undefined || own(entry, 'maxAmountRequired') === undefined

const isV2Entry = (entry: unknown): boolean =>
  isObject(entry) && own(entry, 'amount') !== undefined && own(entry, 'payTo') !== undefined

const termsOf = (entry: unknown): object =>
  isObject(entry) ? Object.fromEntries(termNames.map((name) => [name, own(entry, name)])) : { entry }

const refuse = (message: string): ReadOffer => ({ ok: false, message })

/** Maximum redirects that are followed. A renamed link needs one, and a site that normalizes its URLs needs two or three. */
const MAX_REDIRECTS = 5

interface Unpaid {
  /** The call after redirects. A payment is for the URL of this call. */
  readonly call: HttpCall
  readonly response: HttpResponse
  /** Why the response's redirect was not followed. Undefined if there is no redirect. */
  readonly objection: string | undefined
}

/**
 * Makes a call without a payment, and follows redirects within its origin (scheme, host and port). GET and HEAD follow all
 * redirects (RFC 9110, section 15.4). Other methods follow 307 and 308, which keep method and body. They do not follow 301 to 303,
 * because clients treat these differently. A call with a payment never uses this function.
 */
export async function requestUnpaid(
  first: HttpCall,
  onStep: (text: string) => void,
): Promise<Unpaid | HttpFailure> {
  let call = first
  for (let hops = 0; ; hops++) {
    const response = await fetchOffer(call)
    if (response instanceof HttpFailure) return response
    const { status } = response
    if (status < 300 || status > 399) return { call, response, objection: undefined }
    const target = targetOf(call, response)
    const objection = typeof target === 'string' ? target : hops < MAX_REDIRECTS ? undefined : tooMany
    if (typeof target === 'string' || objection !== undefined) return { call, response, objection }
    onStep(`Redirected to ${target.href}.`)
    call = { ...call, url: target }
  }
}

const tooMany = `at most ${MAX_REDIRECTS} redirects in a row are followed`

async function fetchOffer(call: HttpCall): Promise<HttpResponse | HttpFailure> {
  try {
    return await callOnce(call)
  } catch (error) {
    if (error instanceof HttpFailure) return error
    throw error
  }
}

/** Target of a redirect that may be followed. Otherwise a sentence with the reason why it may not. */
function targetOf({ url, method }: HttpCall, { status, headers }: HttpResponse): URL | string {
  const locations = distinct(valuesOf(headers, 'location'))
  const target = locations.length === 1 ? URL.parse(locations[0]!, url.href) : null
  if (target === null) return 'it does not name exactly one address'
  if (target.origin !== url.origin) return 'only redirects within the same origin are followed'
  if (target.username !== '' || target.password !== '') return 'its address contains credentials'
  const repeats = status === 307 || status === 308
  const isSafe = method === 'GET' || method === 'HEAD'
  if (!repeats && !(isSafe && (status === 301 || status === 302 || status === 303)))
    return `a ${method} does not follow a ${status}`
  target.hash = ''
  return target
}

/** The meaning of a first response that is not a 402. */
export function withoutOffer({
  response,
  objection,
}: Unpaid): { outcome: PayOutcome; message: string } | undefined {
  const { status } = response
  if (status === 402) return undefined
  if (status >= 200 && status < 300) {
    const isComplete = response.isWhole && response.isWithinLimit
    if (isComplete)
      return { outcome: 'free', message: 'The address did not require a payment. Nothing was signed.' }
    return {
      outcome: 'failed',
      message: 'The address did not require a payment, and its response is incomplete.',
    }
  }
  if (objection !== undefined) {
    const location = valuesOf(response.headers, 'location')[0]?.slice(0, 300) ?? 'nowhere'
    return {
      outcome: 'refused',
      message: `The server redirects to ${location}, and ${objection}. Nothing was signed. Call that address directly.`,
    }
  }
  return {
    outcome: 'failed',
    message: `The server responded with ${status} before any payment. Nothing was signed.`,
  }
}
