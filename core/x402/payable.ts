import { TollgateError } from '../errors/error.ts'
import type { Challenges } from './challenge.ts'
import type { Offer } from './offers.ts'

/**
 * The 402 answers of a link of which some offers come and go: a seller's Solana wallet without an account of the token can't
 * be paid. Answers are made once for each set of offers that was ever payable; choosing one costs a look at each offer.
 *
 * @param make the answers for some of the offers
 * @param notOffered why there are no more offers, in words for its seller
 */
export function payableChallenges(
  offers: readonly Offer[],
  make: (offers: readonly Offer[]) => Challenges,
  notOffered: readonly string[],
): Challenges {
  const watched = offers.flatMap(({ payee }) => payee ?? [])
  if (offers.length > 0 && watched.length === 0) return make(offers)
  const made = new Map<number, Challenges>()
  const current = (): Challenges => {
    let payable = 0
    for (let i = 0; i < offers.length; i++) if (offers[i]!.payee?.fault === undefined) payable |= 1 << i
    if (payable === 0) throw unpayable(watched[0]?.fault ?? notOffered[0])
    const known = made.get(payable)
    if (known !== undefined) return known
    const challenges = make(offers.filter((_, i) => payable & (1 << i)))
    made.set(payable, challenges)
    return challenges
  }
  return {
    get v2() {
      return current().v2
    },
    get v1() {
      return current().v1
    },
    because: (...why) => current().because(...why),
    get looking() {
      const first = watched.find(({ looking }) => looking !== undefined)
      return first?.looking
    },
  }
}

/** Never an empty `accepts`: a client can do nothing with it, and tells nobody why. */
const unpayable = (fault = 'No network is open on which the seller has a wallet.') =>
  new TollgateError(
    'settlement_unavailable',
    `This link can not be paid at the moment; nothing was charged. ${fault}`,
    { reason: 'payee_unpayable', retryAfterSeconds: 60 },
  )
