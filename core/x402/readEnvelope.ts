import { randomBytes } from 'node:crypto'
import { isObject, own } from './strictJson.ts'

/** Most entries that are looked at; real offers have one or two a network. */
const MAX_ENTRIES = 64
/** Longest `resource` and entry that are sent back with the payment, as JSON: a head has 16 KiB in all. */
const MAX_ECHO_CHARS = 6_000
/** Longest extension that is sent back whole. */
const MAX_ANSWER_CHARS = 2_000

/** A 402 whose envelope was understood; the entries were not looked at yet. */
export interface Offer {
  readonly resource: Readonly<Record<string, unknown>>
  readonly description: string
  readonly accepts: readonly Readonly<Record<string, unknown>>[]
  /** What the seller wants back with the payment besides; undefined where it wants nothing. */
  readonly extensions?: Readonly<Record<string, unknown>> | undefined
}

export type ReadOffer =
  | { readonly ok: true; readonly offer: Offer }
  | { readonly ok: false; readonly message: string }

/**
 * Reads the envelope of an offer (x402 v2, section 5.1): a resource of the origin that was asked, entries within bounds.
 * Extensions are the seller's own business: what they ask for beside the payment is not done, and of a plain transfer it is not
 * needed. The entries are for {@link import('./chooseEntry.ts').chooseEntry}.
 *
 * @param asked the address that answered 402; undefined where the reader did not make the call itself
 */
export function readEnvelope(offer: Readonly<Record<string, unknown>>, asked: URL | undefined): ReadOffer {
  if (own(offer, 'x402Version') !== 2) return refused('x402Version in the offer is not 2')
  const resource = own(offer, 'resource')
  if (!isObject(resource)) return refused('resource is missing')
  const problem = resourceFault(own(resource, 'url'), asked)
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
  return { ok: true, offer: { resource, description, accepts, extensions: answered(extensions) } }
}

/** A payment for another origin's resource could be carried there and used. */
function resourceFault(value: unknown, asked: URL | undefined): string | undefined {
  if (typeof value !== 'string' || !URL.canParse(value)) return 'resource.url is not an address'
  // The URL parser mends these silently; an honest address has none of them.
  const [path = ''] = value.replace(/^[a-z]+:\/\/[^/?#]*/i, '').split(/[?#]/, 1)
  if (/[^\x21-\x7e]/.test(value) || value.split('?', 1)[0]!.includes('\\'))
    return 'resource.url holds characters that an address does not have'
  if (/(^|\/)(\.|%2e){1,2}(\/|$)|%2f|%5c|%00/i.test(path))
    return 'resource.url has a path that can be read in two ways'
  const url = new URL(value)
  if (url.username !== '' || url.password !== '') return 'resource.url holds credentials'
  if (asked !== undefined && !isSameServer(url, asked))
    return `resource.url is at ${url.origin}, but ${asked.origin} was asked`
}

/** A server behind a proxy that ends TLS takes itself for http: it names the host and port that were asked, nothing else. */
const isSameServer = (named: URL, asked: URL): boolean =>
  named.host === asked.host && (named.protocol === asked.protocol || named.protocol === 'http:')

/**
 * The one extension that a seller may need answered: an id of our own, by which it knows this payment again (16 to 128 letters,
 * digits, `-` and `_`).
 */
function answered(extensions: Readonly<Record<string, unknown>>): Offer['extensions'] {
  const name = 'payment-identifier'
  const wanted = own(extensions, name)
  if (!isObject(wanted)) return undefined
  const given = own(wanted, 'info')
  const info = isObject(given) ? given : {}
  if (own(info, 'required') !== true && own(wanted, 'required') !== true) return undefined
  const whole = { ...wanted, info: { ...info, id: `pay_${randomBytes(16).toString('hex')}` } }
  const { id } = whole.info
  const isShort = JSON.stringify(whole).length <= MAX_ANSWER_CHARS
  return { [name]: isShort ? whole : { info: { required: true, id } } }
}

const refused = (message: string): ReadOffer => ({ ok: false, message })
