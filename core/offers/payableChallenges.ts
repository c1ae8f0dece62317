import { channelScheme } from '../domain/channel.ts'
import type { NetworkId } from '../domain/network.ts'
import { TollgateError } from '../errors/error.ts'
import type { ErrorEnvelope, Reply } from '../http/replies.ts'
import type { Challenges } from './challenge.ts'
import type { Offer } from './offers.ts'

/**
 * The 402 responses of a link whose payment methods can change. For example, a Solana wallet of a seller cannot be paid while it
 * has no token account. The responses contain the offers that are payable now. They are made again if other offers become payable,
 * or if a settler's `extra` changes, such as the fee payer or the account that settles payments by `upto`. Each request checks all
 * offers for such changes.
 *
 * @param make makes the responses for some of the offers
 * @param notOffered why other payment methods are not offered, as messages for the seller
 */
export function payableChallenges(
  offers: readonly Offer[],
  make: (offers: readonly Offer[]) => Challenges,
  notOffered: () => readonly string[],
): Challenges {
  const isFixed = ({ payee, terms }: Offer) => payee === undefined && terms.scheme !== 'upto'
  if (offers.length > 0 && offers.every(isFixed)) return make(offers)
  return new Payable(offers, make, notOffered)
}

class Payable implements Challenges {
  readonly #offers: readonly Offer[]
  readonly #make: (offers: readonly Offer[]) => Challenges
  readonly #notOffered: () => readonly string[]
  /** One bit for each offer that was payable when {@link #made} was made. */
  #payable = 0
  /** The `extra` of each offer's settler when {@link #made} was made. */
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

  get hasChannels(): boolean {
    return this.#offers.some(({ terms }) => terms.scheme === channelScheme)
  }

  refused(version: 1 | 2, envelope: ErrorEnvelope, below: string): Reply | undefined {
    return this.#offers.some(isPayable) ? this.#current().refused(version, envelope, below) : undefined
  }

  get looking(): Promise<unknown> | undefined {
    for (const { payee } of this.#offers) if (payee?.reading !== undefined) return payee.reading
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

const extraOf = ({ settler, terms }: Offer) => settler.offerExtra(terms.payTo, terms.scheme)

function asOfNow(offer: Offer): Offer {
  const { terms } = offer
  return { ...offer, terms: { ...terms, extra: { ...terms.extra, ...extraOf(offer) } } }
}

/**
 * The error that replaces a 402 with an empty `accepts`, because a client could not use such a 402 and would not learn the reason.
 */
const unpayable = (fault = 'The seller has no wallet on a network that can be paid now.') =>
  new TollgateError(
    'settlement_unavailable',
    `This link cannot be paid at the moment; nothing was charged. ${fault}`,
    { reason: 'payee_unpayable', retryAfterSeconds: 60 },
  )
