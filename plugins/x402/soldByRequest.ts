import { LRUCache } from 'lru-cache'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Challenges } from '../../core/offers/challenge.ts'
import type { Offer } from '../../core/offers/offers.ts'
import type { FreshOffer } from '../../core/offers/refusedPayment.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Reply, RouteHooks } from '../../core/plugin/gateway.ts'
import type { OwnSlot } from '../../core/plugin/slots.ts'
import { type OffersAtPrice, pay, payForEarlier, type Selling, saleOf, settle, verify } from './pay.ts'
import type { PricedBodies } from './pricedBodies.ts'

/** Maximum number of prices of a link whose offers are kept, at a few kilobytes each. No table has more prices. */
const MAX_KEPT_PRICES = 32

/** The offers of a link at one of its prices. */
export interface PriceOffers extends OffersAtPrice {
  readonly challenges: Challenges
}

export interface SoldByRequestDeps {
  readonly selling: Selling
  /** A price of the link. It is used for calls whose own price is not known. */
  readonly listedPrice: string
  offersAt(price: string): PriceOffers
  readonly bodies: PricedBodies
  /** The offers of a call at its price. */
  readonly offers: OwnSlot<readonly Offer[] | null>
}

export type Paying = Reply | void | Promise<Reply | void>

/** The hooks of a link whose price depends on the request. */
export abstract class SoldByRequest implements RouteHooks {
  readonly #deps: SoldByRequestDeps
  readonly #made = new LRUCache<string, PriceOffers>({ max: MAX_KEPT_PRICES })

  constructor(deps: SoldByRequestDeps) {
    this.#deps = deps
  }

  abstract pay(x: Exchange): Paying

  /** The network for receipts, and whether a GET can refund a channel. It contains no offer, because only a call whose price is known gets an offer. */
  get offer(): FreshOffer {
    const { challenges } = this.#at(this.#deps.listedPrice)
    const { network, hasChannels } = challenges
    return { network, hasChannels, refused: () => undefined }
  }

  verify(x: Exchange): Promise<void> {
    if (x.settlement !== null) this.#assertPaid(x)
    return verify(x, this.#deps.selling)
  }

  settle(x: Exchange): Promise<Reply | undefined> {
    return settle(x, this.#deps.selling)
  }

  deliver(x: Exchange): void {
    this.#deps.selling.byChannel?.end(x)
  }

  /** Runs `payNow` after the body was read. See {@link PricedBodies.read}. */
  protected withBody(x: Exchange, maxBytes: number, payNow: () => Paying): Paying {
    return this.#deps.bodies.read(x, maxBytes, payNow)
  }

  /** The pay phase of a call that has this price. */
  protected payAt(x: Exchange, price: string): Paying {
    const { selling, offers } = this.#deps
    const made = this.#at(price)
    x.offer = made.challenges
    offers.set(x, made.all)
    return pay(x, saleOf(x, selling, made, made.challenges))
  }

  /** The pay phase of a GET that a link does not sell, which can only refund a channel. The refund has the same terms at every price. */
  protected payRefund(x: Exchange): Paying {
    return this.payAt(x, this.#deps.listedPrice)
  }

  /** The pay phase of a call that has no price. A buyer who has already paid for the call gets the response or refund that is owed. */
  protected refuse(x: Exchange, refusal: unknown): Promise<undefined> {
    if (!isPaying(x) || !isTollgateError(refusal)) throw refusal
    const { selling, listedPrice } = this.#deps
    const { all, challenges } = this.#at(listedPrice)
    return payForEarlier(x, () => pay(x, saleOf(x, selling, { all, channels: [] }, challenges)), refusal)
  }

  #at(price: string): PriceOffers {
    const known = this.#made.get(price)
    if (known !== undefined) return known
    const offers = this.#deps.offersAt(price)
    this.#made.set(price, offers)
    return offers
  }

  /**
   * Refuses a late payment that is lower than the price of this call. If a payment is charged late, the buyer repeats the call to get
   * the response. The claim binds method, path, query, body and the headers that decided the price. The seller may have changed the
   * prices since, so that the same call now costs more than the buyer has paid.
   */
  #assertPaid(x: Exchange): void {
    const { network, asset, amountAtomic } = x.payment!.identity
    const offer = this.#deps.offers
      .get(x)
      ?.find(({ terms }) => terms.network === network && terms.asset.toLowerCase() === asset.toLowerCase())
    if (offer !== undefined && amountAtomic >= BigInt(offer.terms.amount)) return
    throw new TollgateError(
      'payment_already_used',
      'This payment was charged for a request with another price, so this request is not forwarded. Do not pay again for the first request, because the seller owes you a refund.',
      { reason: 'charged_refund_owed', extra: { purchaseId: x.purchase!.id } },
    )
  }
}

/** Whether the gateway reads the call's payment. A HEAD call gets the 402, because it must not bypass the price. */
export const isPaying = (x: Exchange): boolean => x.paymentHeader !== null && x.method !== 'HEAD'
