import { chainNameOf, type NetworkId, v1NameOf } from '../domain/network.ts'
import type { ErrorEnvelope } from '../http/errorReply.ts'
import { PreparedReply } from '../http/preparedReply.ts'
import type { Reply } from '../plugin/reply.ts'
import type { Offer, Priced } from './offers.ts'
import type { FreshOffer } from './refusedPayment.ts'
import type { PaymentRequired, ResourceInfo } from './types.ts'

export interface Challenges extends FreshOffer {
  /** The 402 of x402 v2: the same JSON in the header and in the body. */
  readonly v2: Reply
  /** The 402 in the form of x402 v1, for callers that ask for it. */
  readonly v1: Reply
  /**
   * The 402 of a call behind the address, which a client pays at `resource.url`.
   *
   * @param below path and query behind the address, as they were sent
   */
  at(version: 1 | 2, below: string): Reply
  /** While it is found out what can be paid: the answers are worth waiting for. */
  readonly looking?: Promise<unknown> | undefined
}

/** What an offer says of the thing that is sold. */
export interface Described {
  readonly resource: ResourceInfo
  readonly extensions?: PaymentRequired['extensions'] | undefined
}

/**
 * Most bytes of the offer's JSON: in base64 a third more. Node's clients read heads of 16 KiB, and the other headers of
 * the answer, a receipt among them, need room beside it.
 */
export const MAX_OFFER_BYTES = 9_000

/** What an offer says whose call has an address that is too long for it. */
const TOO_LONG =
  'resource.url is the address of the link without the path and query of this call, which are too long for this header: repeat the call as it was.'

/** How the 402 answers are made of many things that are sold. */
export interface ChallengeMaking<S> {
  /** Asked again for what is rarely answered: nothing of it is kept. */
  describe(sold: S, offers: readonly Offer[]): Described
  readonly legacyBody: boolean
  /** Whether the form of x402 v1 is answered; otherwise a request for it gets that of v2. */
  readonly acceptV1: boolean
  /** Those whose answers are kept whole. */
  readonly lately: AskedLately
}

/**
 * The 402 answers of what is sold. What the offer says of the thing is serialised once and kept as text, and what many things have
 * in common is kept once for all of them; an answer is put together of both when it is asked, and kept while it is asked again
 * and again ({@link AskedLately}).
 */
export function createChallenges<S extends Pick<Priced, 'price'>>(
  sold: S,
  offers: readonly Offer[],
  making: ChallengeMaking<S>,
): Challenges {
  return new Made(sold, offers, making)
}

/**
 * With spaces after it, which JSON does not mind, up to a multiple of three bytes: base64 of several such texts is that of each, one
 * after the other.
 */
const padded = (text: string): string => text + '  '.slice(0, (3 - (text.length % 3)) % 3)

const OFFER = padded('{"x402Version":2,"error":"payment_required","resource":')
const OFFER_BASE64 = btoa(OFFER)

class Made<S extends Pick<Priced, 'price'>> implements Challenges {
  readonly #making: ChallengeMaking<S>
  readonly #number: number
  // Parts of the offer of version 2 as JSON, a char a byte: what the link says of itself, how it can be paid, and the rest. Base64 of
  // the first two is made for each answer: it takes less time than to read it where it is in no cache.
  readonly #resource: string
  readonly #accepts: string
  readonly #rest: SharedText
  readonly #sold: S
  readonly #offers: readonly Offer[]

  constructor(sold: S, offers: readonly Offer[], making: ChallengeMaking<S>) {
    this.#sold = sold
    this.#offers = offers
    this.#making = making
    const { resource, extensions } = making.describe(sold, offers)
    const { url, ...rest } = resource
    this.#resource = padded(bytesOf({ url, ...rest }))
    const { lately } = making
    this.#number = lately.number()
    this.#accepts = lately.accepts.of(padded(`,"accepts":${bytesOf(offers.map((o) => o.terms))}`)).text
    this.#rest = lately.rests.of(extensions === undefined ? '}' : `,"extensions":${bytesOf(extensions)}}`)
  }

  /** Not by `join`, which copies: this is copied once, together with the head, when it is written. */
  get #offer(): string {
    return OFFER + this.#resource + this.#accepts + this.#rest.text
  }

  get v2(): Reply {
    const kept = this.#making.lately.ask(this.#number)
    if (kept !== null && kept.v2 !== null) return kept.v2
    const base64 = OFFER_BASE64 + btoa(this.#resource + this.#accepts) + this.#rest.base64
    const reply = this.#reply(this.#offer, base64)
    if (kept !== null) kept.v2 = reply
    return reply
  }

  get v1(): Reply {
    if (!this.#making.acceptV1) return this.v2
    const kept = this.#making.lately.ask(this.#number)
    if (kept !== null && kept.v1 !== null) return kept.v1
    const reply = reply402(bytesOf(this.#v1Form('payment_required', '')))
    if (kept !== null) kept.v1 = reply
    return reply
  }

  at(version: 1 | 2, below: string): Reply {
    if (this.#isV1(version)) return reply402(bytesOf(this.#v1Form('payment_required', below)))
    const text = `{"x402Version":2,"error":"payment_required","resource":${this.#offerOf(below)}`
    return this.#reply(text, btoa(text))
  }

  get network(): NetworkId | undefined {
    return this.#offers[0]?.terms.network
  }

  refused(version: 1 | 2, envelope: ErrorEnvelope, below: string): Reply {
    const { code, message, requestId, reason = code } = envelope.error
    if (this.#isV1(version))
      return reply402(bytesOf({ ...this.#v1Form(reason, below), code, message, requestId }))
    const offer = `"resource":${this.#offerOf(below)}`
    const header = `{"x402Version":2,"error":${bytesOf(reason)},${offer}`
    const body = `${bytesOf({ ...envelope, x402Version: 2 }).slice(0, -1)},${offer}`
    return reply402(body, btoa(header))
  }

  #isV1(version: 1 | 2): boolean {
    return version === 1 && this.#making.acceptV1
  }

  #v1Form(error: string, below: string): object {
    const { resource } = this.#making.describe(this.#sold, this.#offers)
    return v1Form(error, this.#offers, { ...resource, url: resource.url + below })
  }

  /**
   * An offer from its resource on. A client repeats resource and extensions in the header of its payment, together with the address
   * in the request line, and one head has to hold both: so an address counts twice, and extensions go before it does.
   */
  #offerOf(below: string): string {
    if (below === '') return this.#resource + this.#accepts + this.#rest.text
    const address = bytesOf(below).slice(1, -1)
    const needed = this.#resource.length + this.#accepts.length + 2 * address.length
    if (needed > MAX_OFFER_BYTES) {
      const resource = JSON.parse(Buffer.from(this.#resource, 'latin1').toString()) as ResourceInfo
      const description = `${TOO_LONG} ${resource.description}`
      return `${bytesOf({ ...resource, description })}${this.#accepts}}`
    }
    // The address stands first in the resource, and has no quotes of its own.
    const urlEnd = this.#resource.indexOf('"', '{"url":"'.length)
    const resource = this.#resource.slice(0, urlEnd) + address + this.#resource.slice(urlEnd)
    const rest = needed + this.#rest.text.length > MAX_OFFER_BYTES ? '}' : this.#rest.text
    return resource + this.#accepts + rest
  }

  #reply(offer: string, base64: string): Reply {
    const { legacyBody } = this.#making
    return reply402(legacyBody ? bytesOf(legacyForm(this.#sold, this.#offers)) : offer, base64)
  }
}

/** What is asked again while about so many others are asked keeps its answers. */
const KEPT = 1_024

interface Kept {
  v2: Reply | null
  v1: Reply | null
}

/**
 * What was asked lately for its 402. Of a large market most answers are not asked again soon: to keep all of them would take
 * several times the memory of everything else that is known of a link. Each has its place by its number, so that nothing has to be
 * written, nor read, where many others are known.
 */
export class AskedLately {
  /** Who was asked last of those that share a place. */
  readonly #asked = new Float64Array(KEPT)
  readonly #kept: (Kept | null)[] = new Array(KEPT).fill(null)
  #numbers = 0
  /** How things can be paid. */
  readonly accepts = new SharedTexts()
  /** What is said of how they are called; by itself, because there are few of these where many are sold for many prices. */
  readonly rests = new SharedTexts()

  /** For one whose answers may be kept: those that came one after the other don't share places. */
  number(): number {
    return ++this.#numbers
  }

  /** It is asked. @returns its answers, to be kept there; null where it was not asked lately */
  ask(number: number): Kept | null {
    const place = number % KEPT
    if (this.#asked[place] === number) return (this.#kept[place] ??= { v2: null, v1: null })
    this.#asked[place] = number
    this.#kept[place] = null
    return null
  }
}

/** Texts that several have, one copy of each. */
class SharedTexts {
  readonly #texts = new Map<string, SharedText>()

  of(text: string): SharedText {
    let known = this.#texts.get(text)
    if (known === undefined) {
      if (this.#texts.size >= KEPT) this.#texts.clear()
      this.#texts.set(text, (known = new SharedText(text)))
    }
    known.links++
    return known
  }
}

/** Links that have to have a text before its base64 is kept: made anew for each answer, it costs less than what all would take. */
const MANY = 8

/** A text that links have in common; so is its base64, where they are many. */
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

/** As JSON, a char a byte: node writes head and body in one piece (bench/challenge.ts). */
const bytesOf = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('latin1')

/** @param offer the value of `PAYMENT-REQUIRED`, in base64; none in version 1 */
function reply402(body: string, offer?: string): Reply {
  const headers = [
    'Content-Type',
    'application/json; charset=utf-8',
    'Content-Length',
    String(body.length),
    'Cache-Control',
    'no-store',
  ]
  if (offer !== undefined) headers.push('PAYMENT-REQUIRED', offer)
  return new PreparedReply(402, headers, body)
}

/** x402 v1, section 5.1: entries with their own resource, networks by name. Networks without a v1 name are left out. */
function v1Form(error: string, offers: readonly Offer[], resource: ResourceInfo): object {
  const accepts = offers.flatMap(({ terms }) => {
    const network = v1NameOf(terms.network)
    if (network === undefined) return []
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

/** The form that the marketplace interface calls earlier: one way to pay, amounts in whole USDC. */
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
