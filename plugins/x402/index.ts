import { LRUCache } from 'lru-cache'
import type { ServedLink } from '../../core/domain/link.ts'
import { priceFaults } from '../../core/payments/payoutFaults.ts'
import { gatewayPlugin } from '../../core/plugin/gateway.ts'
import {
  AskedLately,
  type ChallengeMaking,
  type Challenges,
  createChallenges,
} from '../../core/x402/challenge.ts'
import { type Offer, offersOf } from '../../core/x402/offers.ts'
import { payableChallenges } from '../../core/x402/payable.ts'
import { extensionsOf } from './extensions.ts'
import { options } from './options.ts'
import { Former, Sold } from './pay.ts'
import { resourceOf } from './resource.ts'

/** Pairs of a seller's wallets and a price, about a kilobyte each. */
const MAX_OFFERS = 5_000

interface OffersOfLink {
  readonly all: readonly Offer[]
  /** Those that stand in the 402. */
  readonly open: readonly Offer[]
}

/**
 * Charges for paid links by x402 (`exact`): answers the 402, checks the payment that comes, settles it. A free link does
 * not have it in its program.
 */
export default gatewayPlugin({
  name: 'x402',
  api: 1,
  options,
  needs: ['chains', 'payments', 'service'],
  // For rate-limit: a refusal of status 503 that counts as a failed payment.
  ownSlots: { 'x402/payersDoing': false },
  slots: {
    pay: { writes: ['payment'] },
    verify: { reads: ['payment', 'claim'], mayRead: ['settlement'], mayWrite: ['x402/payersDoing'] },
    settle: { reads: ['payment', 'claim'], mayRead: ['answer'], writes: ['settlement'] },
    log: { mayRead: ['payment'] },
  },
  setup({ maxTimeoutSeconds, acceptV1, legacyBody }, { ports: { chains, payments, service }, slot }) {
    /** Links of one seller and price have the same offers. */
    const offersBy = new LRUCache<string, OffersOfLink>({ max: MAX_OFFERS })

    function offersFor(link: ServedLink): OffersOfLink {
      const { payout, price } = link
      const settlers = chains.settlers.map(({ id, minPriceAtomic }) => `${id} ${minPriceAtomic}`)
      const key = `${payout.base} ${payout.solana} ${price} ${settlers.join()}`
      let found = offersBy.get(key)
      if (found === undefined) {
        const all = offersOf(link, chains, maxTimeoutSeconds)
        offersBy.set(key, (found = { all, open: all.filter(({ isClosed }) => !isClosed) }))
      }
      return found
    }

    const making: ChallengeMaking<ServedLink> = {
      describe(link, offers) {
        const resource = resourceOf(link, service, offers)
        return { resource, extensions: extensionsOf(link, resource, offers) }
      },
      legacyBody,
      acceptV1,
      lately: new AskedLately(),
    }

    function challengesOf(link: ServedLink, offers: readonly Offer[]): Challenges {
      return payableChallenges(
        offers,
        (payable) => createChallenges(link, payable, making),
        () => priceFaults(chains, link.payout, link.price),
      )
    }

    const { publicUrl } = service
    const selling = { payments, acceptV1, publicUrl, payersDoing: slot('x402/payersDoing') }

    return {
      route({ link, isPaid }) {
        if (!isPaid) return
        const { all, open } = offersFor(link)
        return new (link.isActive ? Sold : Former)(selling, all, challengesOf(link, open))
      },
    }
  },
})
