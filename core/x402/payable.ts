import type { NetworkId } from '../domain/network.ts'
import { TollgateError } from '../errors/error.ts'
import type { ErrorEnvelope } from '../http/errorReply.ts'
import type { Reply } from '../plugin/reply.ts'
import type { Challenges } from './challenge.ts'
import type { Offer } from './offers.ts'

/**
 * The 402 answers of a link of which some offers come and go: a seller's Solana wallet without an account of the token can't
 * be paid. Answers are made for the offers that are payable now, and anew when those are others, or name another fee payer; to see
 * that costs a look at each.
 *
 * @param make the answers for some of the offers
 * @param notOffered why there are no more offers, in words for its seller
 */
export function payableChallenges(
  offers: readonly Offer[],
  make: (offers: readonly Offer[]) => Challenges,
  notOffered: () => readonly string[],
): Challenges {
  if (offers.length > 0 && offers.every(({ payee }) => payee === undefined)) return make(offers)
  return new Payable(offers, make, notOffered)
}

class Payable implements Challenges {
  readonly #offers: readonly Offer[]
  readonly #make: (offers: readonly Offer[]) => Challenges
  readonly #notOffered: () => readonly string[]
  /** One bit for each offer that was payable when {@link #made} was. */
  #payable = 0
  /** What each offer said of its settler when {@link #made} was. */
  #extras: readonly object[] = []
  #made: Challenges | undefined

  constructor(
    offers: readonly Offer[],
    make: (offers: readonly Offer[]) => Challenges,
    notOffered: () => readonly string[],
  ) {
    this.#offers = offers
    this.#make = make
    this.#notOffered = notOffered
  }

  get v2(): Reply {
    return this.#current().v2
  }

  get v1(): Reply {
    return this.#current().v1
  }

  at(version: 1 | 2, below: string): Reply {
    return this.#current().at(version, below)
  }

  get network(): NetworkId | undefined {
    return (this.#offers.find(isPayable) ?? this.#offers[0])?.terms.network
  }

  refused(version: 1 | 2, envelope: ErrorEnvelope, below: string): Reply | undefined {
    return this.#offers.some(isPayable) ? this.#current().refused(version, envelope, below) : undefined
  }

  get looking(): Promise<unknown> | undefined {
    for (const { payee } of this.#offers) if (payee?.looking !== undefined) return payee.looking
    return undefined
  }

  #current(): Challenges {
    let payable = 0
    for (let i = 0; i < this.#offers.length; i++) if (isPayable(this.#offers[i]!)) payable |= 1 << i
    if (payable === 0)
      throw unpayable(this.#offers.find(({ payee }) => payee)?.payee?.fault ?? this.#notOffered()[0])
    if (this.#made === undefined || this.#payable !== payable || !this.#areExtrasKept()) {
      this.#extras = this.#offers.map(extraOf)
      this.#made = this.#make(this.#offers.filter((_, i) => payable & (1 << i)).map(asOfNow))
      this.#payable = payable
    }
    return this.#made
  }

  #areExtrasKept(): boolean {
    for (let i = 0; i < this.#offers.length; i++)
      if (extraOf(this.#offers[i]!) !== this.#extras[i]) return false
    return true
  }
}

const isPayable = ({ payee }: Offer): boolean => payee?.fault === undefined

const extraOf = ({ settler, terms }: Offer) => settler.offerExtra(terms.payTo)

function asOfNow(offer: Offer): Offer {
  const { terms } = offer
  return { ...offer, terms: { ...terms, extra: { ...terms.extra, ...extraOf(offer) } } }
}

/** Never an empty `accepts`: a client can do nothing with it, and tells nobody why. */
const unpayable = (fault = 'No network is open on which the seller has a wallet.') =>
  new TollgateError(
    'settlement_unavailable',
    `This link can not be paid at the moment; nothing was charged. ${fault}`,
    { reason: 'payee_unpayable', retryAfterSeconds: 60 },
  )
