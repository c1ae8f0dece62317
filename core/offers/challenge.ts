import { channelScheme } from '../domain/channel.ts'
import { chainNameOf, type NetworkId, v1NameOf } from '../domain/network.ts'
import { type ErrorEnvelope, PreparedReply, type Reply } from '../http/replies.ts'
import { allowanceRequired, type PaymentRequired, type ResourceInfo } from '../x402/types.ts'
import type { OfferSigning, SignedText } from './offerSigning.ts'
import type { Offer, Priced } from './offers.ts'
import type { FreshOffer } from './refusedPayment.ts'

export interface Challenges extends FreshOffer {
  /** The 402 of x402 v2, with the same JSON in the header and the body. */
  readonly v2: Reply
  /** The 402 in the form of x402 v1, for callers that request it. */
  readonly v1: Reply
  /**
   * The 402 for a path below the link's address. A client pays for the address in `resource.url`.
   *
   * @param below path and query after the link's address, as received
   */
  at(version: 1 | 2, below: string): Reply
  /** Pending while the gateway queries a chain for payable offers. A caller that needs the 402 waits for this first. */
  readonly looking?: Promise<unknown> | undefined
}

/** The parts of an offer that describe the sold link or payment session. */
export interface Described {
  readonly resource: ResourceInfo
  readonly extensions?: PaymentRequired['extensions'] | undefined
  /** Makes a further extension for each response, by name. Undefined if all responses have the same extensions. */
  readonly fresh?: (() => Readonly<Record<string, unknown>>) | undefined
  /** Whether `extensions` also gets the signed offers. */
  readonly isSigned?: boolean
}

/**
 * Maximum size of the offer's JSON, in bytes. Base64 makes it a third longer. Node's clients read heads of at most 16 KiB, which
 * also contain the response's other headers, such as a receipt.
 */
export const MAX_OFFER_BYTES = 9_000

/** Replaces an address in an offer if the address is too long for the offer. */
const TOO_LONG =
  'resource.url is the address of the link without the path and query of this call, which are too long for this header. Repeat the call with its own path and query.'

/** Functions and settings for making the 402 responses of many links. */
export interface ChallengeMaking<S> {
  /** Also called for each 402 of a rare form, because such a 402 is not cached. */
  describe(sold: S, offers: readonly Offer[]): Described
  readonly legacyBody: boolean
  /** Whether x402 v1 is supported. If it is not, a request for v1 gets the v2 form. */
  readonly acceptV1: boolean
  /** The cache of complete responses. */
  readonly recent: RecentChallenges
  /** Signs the offers of links that are described as signed. Absent if the gateway signs none. */
  readonly signing?: OfferSigning | undefined
}

/**
 * The 402 responses of one link. The link's description in the offer is serialized once and stored as text. If many links have the
 * same text, it is stored once. A response is assembled from these texts when it is requested. It is cached while requests for it
 * are frequent ({@link RecentChallenges}).
 */
export function createChallenges<S extends Pick<Priced, 'price'>>(
  sold: S,
  offers: readonly Offer[],
  making: ChallengeMaking<S>,
): Challenges {
  return new Made(sold, offers, making)
}

/**
 * Adds spaces, which JSON allows, so that the text's length is a multiple of three bytes. The base64 of several such texts is then
 * the concatenation of their base64.
 */
const padded = (text: string): string => text + '  '.slice(0, (3 - (text.length % 3)) % 3)

const OFFER = padded('{"x402Version":2,"error":"payment_required","resource":')
const OFFER_BASE64 = btoa(OFFER)
const EXTENSIONS = ',"extensions":{'

class Made<S extends Pick<Priced, 'price'>> implements Challenges {
  readonly #making: ChallengeMaking<S>
  readonly #number: number
  // Parts of the v2 offer as JSON, with one character per byte: the link's description, its payment methods, and the rest. The
  // base64 of the first two is computed for each response, because that is faster than reading it from memory outside the CPU
  // caches.
  readonly #resource: string
  readonly #accepts: string
  readonly #rest: SharedText
  readonly #fresh: Described['fresh']
  /** Null if the offers are not signed. The signed offers precede the members of `#rest`. */
  readonly #signing: OfferSigning | null
  readonly #sold: S
  readonly #offers: readonly Offer[]

  constructor(sold: S, offers: readonly Offer[], making: ChallengeMaking<S>) {
    this.#sold = sold
    this.#offers = offers
    this.#making = making
    const { resource, extensions, fresh, isSigned = false } = making.describe(sold, offers)
    this.#fresh = fresh
    const { url, ...rest } = resource
    this.#signing = (isSigned && making.signing) || null
    this.#resource = padded(bytesOf({ url, ...rest }))
    const { recent: lately } = making
    this.#number = lately.number()
    this.#accepts = lately.accepts.of(padded(`,"accepts":${bytesOf(offers.map((o) => o.terms))}`)).text
    this.#rest = lately.rests.of(
      extensions === undefined ? '}' : `${EXTENSIONS}${bytesOf(extensions).slice(1)}}`,
    )
  }

  get v2(): Reply {
    if (this.#fresh !== undefined) return this.at(2, '')
    const entry = this.#making.recent.entryOf(this.#number)
    if (entry !== null && entry.v2 !== null && this.#isFresh(entry)) return entry.v2
    const signed = this.#signed()
    // Concatenated with `+`, because `join` would copy. The text is copied only once, together with the head, when it is sent.
    const own = this.#resource + this.#accepts
    const rest = signed === null ? this.#rest.base64 : btoa(this.#restWith(signed))
    const reply = this.#reply(OFFER + own + this.#restWith(signed), OFFER_BASE64 + btoa(own) + rest)
    if (entry !== null) {
      entry.v2 = reply
      entry.freshUntilMs = signed?.freshUntilMs ?? Number.POSITIVE_INFINITY
    }
    return reply
  }

  #isFresh(entry: CachedReplies): boolean {
    return this.#signing === null || this.#signing.isFresh(entry)
  }

  #signed(): SignedText | null {
    if (this.#signing === null) return null
    const urlOf = () => this.#making.describe(this.#sold, this.#offers).resource.url
    return this.#signing.of(this, urlOf, this.#offers)
  }

  #restWith(signed: SignedText | null): string {
    if (signed === null) return this.#rest.text
    return `${EXTENSIONS}${signed.text},${this.#rest.text.slice(EXTENSIONS.length)}`
  }

  get v1(): Reply {
    if (!this.#making.acceptV1) return this.v2
    const entry = this.#making.recent.entryOf(this.#number)
    if (entry !== null && entry.v1 !== null) return entry.v1
    const reply = offerReply(402, bytesOf(this.#v1Form('payment_required', '')))
    if (entry !== null) entry.v1 = reply
    return reply
  }

  at(version: 1 | 2, below: string): Reply {
    if (this.#isV1(version)) return offerReply(402, bytesOf(this.#v1Form('payment_required', below)))
    const text = `{"x402Version":2,"error":"payment_required","resource":${this.#offerOf(below)}`
    return this.#reply(text, btoa(text))
  }

  get network(): NetworkId | undefined {
    return this.#offers[0]?.terms.network
  }

  get hasChannels(): boolean {
    return this.#offers.some(({ terms }) => terms.scheme === channelScheme)
  }

  refused(version: 1 | 2, envelope: ErrorEnvelope, below: string): Reply {
    const { code, message, requestId, reason = code } = envelope.error
    const status = reason === allowanceRequired ? 412 : 402
    if (this.#isV1(version))
      return offerReply(status, bytesOf({ ...this.#v1Form(reason, below), code, message, requestId }))
    const offer = `"resource":${this.#offerOf(below)}`
    const header = `{"x402Version":2,"error":${bytesOf(reason)},${offer}`
    const body = `${bytesOf({ ...envelope, x402Version: 2 }).slice(0, -1)},${offer}`
    return offerReply(status, body, btoa(header))
  }

  #isV1(version: 1 | 2): boolean {
    return version === 1 && this.#making.acceptV1
  }

  #v1Form(error: string, below: string): object {
    const { resource } = this.#making.describe(this.#sold, this.#offers)
    return v1Form(error, this.#offers, { ...resource, url: resource.url + below })
  }

  /**
   * The offer from its `resource` on. A client repeats `resource` and `extensions` in its payment header, and the head of that
   * request also has the address in its request line. The address therefore counts twice. If the head would be too long, the
   * extensions are left out first, and then the path and query of the address. The extension that is made for this response, which is
   * the offer to sign in, stays, because a link for signed-in wallets cannot be called without it.
   */
  #offerOf(below: string): string {
    const fresh = this.#fresh === undefined ? null : bytesOf(this.#fresh()).slice(1)
    const whole = this.#extensionsWith(fresh)
    if (below === '') return this.#resource + this.#accepts + whole
    const least = fresh === null ? '}' : `${EXTENSIONS}${fresh}}`
    const address = bytesOf(below).slice(1, -1)
    const needed = this.#resource.length + this.#accepts.length + 2 * address.length
    if (needed + least.length > MAX_OFFER_BYTES) {
      const resource = JSON.parse(Buffer.from(this.#resource, 'latin1').toString()) as ResourceInfo
      const description = `${TOO_LONG} ${resource.description}`
      return `${bytesOf({ ...resource, description })}${this.#accepts}${least}`
    }
    // The address is the first member of `resource` and contains no quotes.
    const urlEnd = this.#resource.indexOf('"', '{"url":"'.length)
    const resource = this.#resource.slice(0, urlEnd) + address + this.#resource.slice(urlEnd)
    const rest = needed + whole.length > MAX_OFFER_BYTES ? least : whole
    return resource + this.#accepts + rest
  }

  /** The end of the offer. @param fresh the extension that is made for this response, without its first brace, or null */
  #extensionsWith(fresh: string | null): string {
    const text = this.#restWith(this.#signed())
    if (fresh === null) return text
    return text === '}' ? `${EXTENSIONS}${fresh}}` : `${text.slice(0, -2)},${fresh}}`
  }

  #reply(offer: string, base64: string): Reply {
    const { legacyBody } = this.#making
    return offerReply(402, legacyBody ? bytesOf(legacyForm(this.#sold, this.#offers)) : offer, base64)
  }
}

/**
 * Number of links whose responses can be cached. A link loses its cached responses when another link with the same index is
 * requested.
 */
const MAX_CACHED = 1_024

interface CachedReplies {
  v2: Reply | null
  v1: Reply | null
  /** Time after which the signed offers in `v2` have to be signed again, in ms since 1970. */
  freshUntilMs: number
}

/**
 * The cache of 402 responses. In a large market, most links are not requested again soon, and keeping all responses would take
 * several times the memory of everything else about a link. A link's number determines its index, so that a request touches no
 * memory of other links.
 */
export class RecentChallenges {
  /** The number of the link that was last requested at each index. */
  readonly #owners = new Float64Array(MAX_CACHED)
  readonly #entries: (CachedReplies | null)[] = new Array(MAX_CACHED).fill(null)
  #numbers = 0
  /** The texts of `accepts`. */
  readonly accepts = new SharedTexts()
  /**
   * The texts that describe how to call links. They are separate from `accepts`, because many links with different prices are
   * called in the same way.
   */
  readonly rests = new SharedTexts()

  /** The number of a new link. Consecutive numbers have different indexes. */
  number(): number {
    return ++this.#numbers
  }

  /**
   * Notes a request for a link's 402.
   *
   * @returns the link's cached responses, to be filled. Null if the link was not requested recently
   */
  entryOf(number: number): CachedReplies | null {
    const slot = number % MAX_CACHED
    if (this.#owners[slot] === number)
      return (this.#entries[slot] ??= { v2: null, v1: null, freshUntilMs: 0 })
    this.#owners[slot] = number
    this.#entries[slot] = null
    return null
  }
}

/** Texts that links share, with one copy of each. */
class SharedTexts {
  readonly #texts = new Map<string, SharedText>()

  of(text: string): SharedText {
    let known = this.#texts.get(text)
    if (known === undefined) {
      if (this.#texts.size >= MAX_CACHED) this.#texts.clear()
      this.#texts.set(text, (known = new SharedText(text)))
    }
    known.links++
    return known
  }
}

/**
 * How many links must share a text before its base64 is stored. For fewer links, computing the base64 for each response costs less
 * than the memory.
 */
const MANY = 8

/** A text that links share. Its base64 is stored too if many links share the text. */
class SharedText {
  readonly text: string
  links = 0
  #base64: string | null = null

  constructor(text: string) {
    this.text = text
  }

  get base64(): string {
    if (this.#base64 !== null) return this.#base64
    const made = btoa(this.text)
    if (this.links >= MANY) this.#base64 = made
    return made
  }
}

/** JSON with one character per byte, because Node sends a head and a latin1 body in one write (bench/steps.ts). */
const bytesOf = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('latin1')

/** @param offer the value of `PAYMENT-REQUIRED` in base64. Absent in v1 */
function offerReply(status: number, body: string, offer?: string): Reply {
  const headers = [
    'Content-Type',
    'application/json; charset=utf-8',
    'Content-Length',
    String(body.length),
    'Cache-Control',
    'no-store',
  ]
  if (offer !== undefined) headers.push('PAYMENT-REQUIRED', offer)
  return new PreparedReply(status, headers, body)
}

/**
 * The 402 of x402 v1, section 5.1. Each entry has its own resource, and networks have names. Networks without a v1 name are left
 * out, and payments by Permit2, which v1 does not have.
 */
function v1Form(error: string, offers: readonly Offer[], resource: ResourceInfo): object {
  const accepts = offers.flatMap(({ terms }) => {
    const network = v1NameOf(terms.network)
    // Clients of version 1 know only the scheme `exact`, without Permit2.
    const isKnown = terms.scheme === 'exact' && terms.extra['assetTransferMethod'] !== 'permit2'
    if (network === undefined || !isKnown) return []
    const { scheme, payTo, asset, maxTimeoutSeconds, extra } = terms
    return [
      {
        scheme,
        network,
        maxAmountRequired: terms.amount,
        resource: resource.url,
        description: resource.description,
        mimeType: resource.mimeType,
        payTo,
        maxTimeoutSeconds,
        asset,
        extra,
      },
    ]
  })
  return { x402Version: 1, error, accepts }
}

/** The form that the marketplace interface calls the earlier form, with one payment method and amounts in whole USDC. */
function legacyForm({ price }: Pick<Priced, 'price'>, offers: readonly Offer[]): unknown {
  const first = offers[0]
  return {
    error: 'payment_required',
    payment: first && {
      amount: price,
      currency: first.asset.symbol,
      recipient: first.terms.payTo,
      chain: chainNameOf(first.terms.network),
    },
  }
}
