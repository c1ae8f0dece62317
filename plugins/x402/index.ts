import { LRUCache } from 'lru-cache'
import { channelOffers } from '../../core/channels/offers.ts'
import { isPaid, type ServedLink } from '../../core/domain/link.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import { isByUse, isQueried, type PriceQuery, type PriceTable } from '../../core/domain/pricing.ts'
import { createLoopMarks } from '../../core/http/loopMark.ts'
import {
  type ChallengeMaking,
  type Challenges,
  createChallenges,
  type Described,
  RecentChallenges,
} from '../../core/offers/challenge.ts'
import { OfferSigning } from '../../core/offers/offerSigning.ts'
import { type Offer, offersOf, type Priced, priceFaults, schemeOf } from '../../core/offers/offers.ts'
import { payableChallenges } from '../../core/offers/payableChallenges.ts'
import { SignIns } from '../../core/offers/signIns.ts'
import { ReceiptSigning } from '../../core/payments/chargeReceipt.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { gatewayPlugin, type RouteHooks } from '../../core/plugin/gateway.ts'
import { priceKeyOf } from '../../core/pricing/priceSecret.ts'
import { CompiledTable } from '../../core/pricing/priceTable.ts'
import { CompiledUse } from '../../core/pricing/useMeter.ts'
import { signInName, signInOffer } from '../../core/x402/signIn.ts'
import { SoldByChannel } from './channels.ts'
import { addressOf, extensionsOf, resourceOf } from './extensions.ts'
import { options } from './options.ts'
import { Former, type Selling, Sold } from './pay.ts'
import { PricedBodies } from './pricedBodies.ts'
import { SellersPrices } from './sellersPrices.ts'
import { CalledSignedIn, type SigningIn, signInTarget } from './signedIn.ts'
import { SoldByQuery } from './soldByQuery.ts'
import type { SoldByRequestDeps } from './soldByRequest.ts'
import { SoldByTable } from './soldByTable.ts'
import { SoldByUse, type SoldByUseDeps } from './soldByUse.ts'

/** Maximum combinations of a seller's wallets and a price whose offers are kept, at about a kilobyte each. */
const MAX_OFFERS = 5_000

interface OffersOfLink {
  readonly all: readonly Offer[]
  /** The offers that the 402 lists. */
  readonly open: readonly Offer[]
}

/**
 * Charges for calls of paid links by x402: `exact`, `upto` for prices by use, and `batch-settlement` on networks with payment
 * channels. It sends the 402, checks the payment and settles it. A free link does not have
 * this plugin in its pipeline.
 */
export default gatewayPlugin({
  name: 'x402',
  api: 1,
  options,
  needs: [
    'chains',
    'payments',
    'service',
    'egress',
    'sealer',
    'clock',
    'log',
    'responseBuffer',
    'receiptSigner',
    'purchases',
    'walletProofs',
    'nonces',
    'channels',
  ],
  ownSlots: {
    // Marks a 503 that was caused by the payer, so that rate-limit counts it as a failed payment.
    'x402/payersDoing': false,
    // The offers of a call whose price depends on the request, for the verify phase.
    'x402/offers': null as readonly Offer[] | null,
  },
  slots: {
    pay: { writes: ['payment'], mayWrite: ['signedIn', 'x402/offers'] },
    verify: {
      reads: ['payment', 'claim'],
      mayRead: ['settlement', 'purchase', 'x402/offers'],
      mayWrite: ['x402/payersDoing'],
    },
    settle: {
      reads: ['payment', 'claim'],
      mayRead: ['response', 'chargeAtomic'],
      mayWrite: ['chargeAtomic', 'purchase'],
      writes: ['settlement'],
    },
    log: { mayRead: ['payment'] },
  },
  setup({ maxTimeoutSeconds, acceptV1, legacyBody, signedReceipts }, { ports, slot }) {
    const { chains, payments, service, egress, sealer, clock, log, responseBuffer, receiptSigner, channels } =
      ports
    const { publicUrl } = service
    const byChannel = channels === null ? null : new SoldByChannel(channels, service.metadataField)
    const signs = signedReceipts !== 'off'
    const signIns = new SignIns({ ...ports, publicUrl })
    const signingIn: SigningIn = {
      signIns,
      purchases: ports.purchases,
      notes: createPurchaseNotes(sealer, service.metadataField),
      clock,
    }
    /** Offers by wallets and price, because links of one seller with one price have the same offers. */
    const offersBy = new LRUCache<string, OffersOfLink>({ max: MAX_OFFERS })

    function offersFor(link: Priced): OffersOfLink {
      const { payout, price } = link
      const scheme = schemeOf(link)
      const settlers = chains.settlers.map(({ id, minPriceAtomic }) => `${id} ${minPriceAtomic}`)
      const key = `${scheme} ${payout.base} ${payout.solana} ${price} ${settlers.join()}`
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
        const fresh = signInExtension(link, resource.url, offers)
        return { resource, ...extensionsOf(link, resource, offers, signs, fresh), fresh }
      },
      legacyBody,
      acceptV1,
      recent: new RecentChallenges(),
      signing: signs ? new OfferSigning(receiptSigner, clock, maxTimeoutSeconds * 1_000) : undefined,
    }

    /** The networks whose wallets can call a link by a signature. */
    function networksOf(link: ServedLink, offers: readonly Offer[]): readonly NetworkId[] {
      const known = link.access === 'signed-in' ? chains.settlers : offers.map(({ terms }) => terms)
      return [...new Set(known.map(({ network }) => network))]
    }

    /** Undefined for a link that no wallet can call by a signature. */
    function signInExtension(link: ServedLink, url: string, offers: readonly Offer[]): Described['fresh'] {
      if (link.access === null) return undefined
      const target = signInTarget(link, url, networksOf(link, offers))
      return () => ({ [signInName]: signInOffer(signIns.offer(target), target.networks) })
    }

    function signedIn(link: ServedLink): RouteHooks {
      const open = isPaid(link) ? offersFor(link).open : []
      const { url } = resourceOf(link, service, open)
      const challenges = isPaid(link) ? challengesOf(link, open) : createChallenges(link, [], making)
      return new CalledSignedIn(signingIn, link, signInTarget(link, url, networksOf(link, open)), challenges)
    }

    /**
     * The offers by channels. A channel is charged for a response, so a link that charges first has none. A link with access has
     * none either, because a channel records no purchase that could give access.
     */
    const channelsFor = (link: ServedLink, open: readonly Offer[]) =>
      channels === null || link.settle === 'before' || link.access !== null || !link.isActive
        ? []
        : channelOffers(open, channels.networks)

    function challengesOf(link: ServedLink, offers: readonly Offer[]): Challenges {
      return payableChallenges(
        offers,
        (payable) => createChallenges(link, payable, making),
        () => priceFaults(chains, link),
      )
    }

    const namesTransaction = signedReceipts === 'with-transaction'
    const selling: Selling = {
      payments,
      acceptV1,
      publicUrl,
      signingOf: signs
        ? (link) => new ReceiptSigning(receiptSigner, addressOf(link, service), namesTransaction)
        : null,
      payersDoing: slot('x402/payersDoing'),
      byChannel,
    }

    const bodies = new PricedBodies(responseBuffer, clock)
    const loopMarks = createLoopMarks(publicUrl, sealer)
    const prices = new SellersPrices({ egress, clock, log, honoredMs: maxTimeoutSeconds * 1_000 })

    function byRequest(link: ServedLink, pricing: PriceTable | PriceQuery): RouteHooks {
      const deps: SoldByRequestDeps = {
        selling,
        listedPrice: link.price,
        offersAt(price) {
          const { all, open } = offersFor({ payout: link.payout, price })
          // A price server may have stated several prices that a call can be paid at, but a voucher has one.
          const ofChannels = isQueried(pricing) ? [] : channelsFor(link, open)
          const challenges = challengesOf({ ...link, price }, [...open, ...ofChannels])
          return { all, channels: ofChannels, challenges }
        },
        bodies,
        offers: slot('x402/offers'),
      }
      if (!isQueried(pricing)) return new SoldByTable(deps, new CompiledTable(pricing))
      const { id, version } = link
      const ofLink = prices.ofLink({
        id,
        version,
        query: pricing,
        key: priceKeyOf(sealer, id),
        loopMark: loopMarks.ofLink(id),
      })
      return new SoldByQuery(deps, ofLink, pricing.headers)
    }

    return {
      route({ link, isPaid }) {
        if (!isPaid) return link.access === null ? undefined : signedIn(link)
        const { pricing, isActive } = link
        if (pricing !== null && isActive && !isByUse(pricing)) return byRequest(link, pricing)
        const { all, open } = offersFor(link)
        if (pricing !== null && isActive && isByUse(pricing)) {
          const deps: SoldByUseDeps = {
            selling,
            clock,
            log,
            use: new CompiledUse(pricing),
          }
          const ofChannels = channelsFor(link, open)
          const challenges = challengesOf(link, [...open, ...ofChannels])
          return new SoldByUse(deps, { all, channels: ofChannels }, challenges)
        }
        const ofChannels = channelsFor(link, open)
        const challenges = challengesOf(link, [...open, ...ofChannels])
        return new (isActive ? Sold : Former)(selling, { all, channels: ofChannels }, challenges)
      },
    }
  },
})
