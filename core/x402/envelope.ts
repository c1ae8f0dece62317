import { randomBytes } from 'node:crypto'
import { offerReceiptName } from './offerReceipt.ts'
import { identifierName } from './paymentIdentifier.ts'
import { isObject, own } from './strictJson.ts'

/** Maximum entries of an offer that are read. Real offers have one or two per network. */
const MAX_ENTRIES = 64
/**
 * Maximum length of a `resource` or entry that the client sends back with the payment, in characters of JSON. A whole request head
 * has at most 16 KiB.
 */
const MAX_ECHO_CHARS = 6_000
/** Maximum length of an extension that the client sends back unchanged, in characters. */
const MAX_ANSWER_CHARS = 2_000

/** A 402 whose envelope was read. Its entries are not read yet. */
export interface Offer {
  readonly resource: Readonly<Record<string, unknown>>
  readonly description: string
  readonly accepts: readonly Readonly<Record<string, unknown>>[]
  /** Extensions that the buyer sends back with the payment. Undefined if the seller offers none that the buyer understands. */
  readonly extensions?: Readonly<Record<string, unknown>> | undefined
  /** The signed offers as received. Empty if the seller signs none. */
  readonly signedOffers: readonly unknown[]
}

export type ReadOffer =
  | { readonly ok: true; readonly offer: Offer }
  | { readonly ok: false; readonly message: string }

/**
 * Reads the envelope of an offer (x402 v2, section 5.1). The resource must have the origin that was called, and the entries are
 * limited in number and size. Extensions that require more than the payment are not supported, because a plain transfer does not
 * need them. {@link import('./offerTerms.ts').chooseEntry} reads the entries.
 *
 * @param asked the address that returned the 402. Undefined if the reader did not make the call itself
 */
export function readEnvelope(
  offer: Readonly<Record<string, unknown>>,
  requested: URL | undefined,
): ReadOffer {
  if (own(offer, 'x402Version') !== 2) return refused('x402Version in the offer is not 2')
  const resource = own(offer, 'resource')
  if (!isObject(resource)) return refused('resource is missing')
  const problem = resourceFault(own(resource, 'url'), requested)
  if (problem !== undefined) return refused(problem)
  const description = own(resource, 'description') ?? ''
  if (typeof description !== 'string') return refused('resource.description is not a string')
  if (JSON.stringify(resource).length > MAX_ECHO_CHARS) return refused('resource is too long')

  const extensions = own(offer, 'extensions') ?? {}
  if (!isObject(extensions)) return refused('extensions is not an object')
  const accepts = own(offer, 'accepts')
  if (
    !Array.isArray(accepts) ||
    accepts.length === 0 ||
    accepts.length > MAX_ENTRIES ||
    !accepts.every(isObject)
  ) {
    return refused(`accepts is not a list of 1 to ${MAX_ENTRIES} entries`)
  }
  if (accepts.some((entry) => JSON.stringify(entry).length > MAX_ECHO_CHARS))
    return refused('an entry is too long')
  return {
    ok: true,
    offer: {
      resource,
      description,
      accepts,
      extensions: answered(extensions),
      signedOffers: signedOffersIn(extensions),
    },
  }
}

function signedOffersIn(extensions: Readonly<Record<string, unknown>>): readonly unknown[] {
  const extension = own(extensions, offerReceiptName)
  const info = isObject(extension) ? own(extension, 'info') : undefined
  const offers = isObject(info) ? own(info, 'offers') : undefined
  return Array.isArray(offers) ? offers.slice(0, MAX_ENTRIES) : []
}

/** Refuses a resource of another origin, because the payment could be used there. */
function resourceFault(value: unknown, requested: URL | undefined): string | undefined {
  if (typeof value !== 'string' || !URL.canParse(value)) return 'resource.url is not an address'
  // The URL parser silently repairs these characters, which no legitimate address contains.
  const [path = ''] = value.replace(/^[a-z]+:\/\/[^/?#]*/i, '').split(/[?#]/, 1)
  if (/[^\x21-\x7e]/.test(value) || value.split('?', 1)[0]!.includes('\\'))
    return 'resource.url contains characters that an address cannot have'
  if (/(^|\/)(\.|%2e){1,2}(\/|$)|%2f|%5c|%00/i.test(path))
    return 'resource.url has a path that can be read in two ways'
  const url = new URL(value)
  if (url.username !== '' || url.password !== '') return 'resource.url contains credentials'
  if (requested !== undefined && !isSameServer(url, requested))
    return `resource.url is at ${url.origin}, but the call was to ${requested.origin}`
}

/**
 * Whether an address names the server that was called. Host and port must be equal. A server behind a proxy that terminates TLS may
 * name itself with http.
 */
const isSameServer = (named: URL, requested: URL): boolean =>
  named.host === requested.host && (named.protocol === requested.protocol || named.protocol === 'http:')

/**
 * Answers the one extension that a buyer understands, which is an id by which the seller recognizes this payment. A seller that
 * requires no id gets one too, because the id proves to the seller that a repeated call is the buyer's.
 */
function answered(extensions: Readonly<Record<string, unknown>>): Offer['extensions'] {
  const offered = own(extensions, identifierName)
  if (!isObject(offered)) return undefined
  const given = own(offered, 'info')
  const info = isObject(given) ? given : {}
  const id = `pay_${randomBytes(16).toString('hex')}`
  const whole = { ...offered, info: { ...info, id } }
  const isShort = JSON.stringify(whole).length <= MAX_ANSWER_CHARS
  const required = own(info, 'required') === true || own(offered, 'required') === true
  return { [identifierName]: isShort ? whole : { info: { required, id } } }
}

const refused = (message: string): ReadOffer => ({ ok: false, message })
