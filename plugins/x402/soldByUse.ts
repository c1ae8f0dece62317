import type { Challenges } from '../../core/offers/challenge.ts'
import type { Offer } from '../../core/offers/offers.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { handled, type Reply } from '../../core/plugin/gateway.ts'
import type { Log } from '../../core/ports/log.ts'
import { chargedAmount } from '../../core/pricing/useCharge.ts'
import type { CompiledUse, Use } from '../../core/pricing/useMeter.ts'
import { type Selling, Sold } from './pay.ts'

/** Minimum time between two log lines about the charges of a link, in ms. */
const WARN_EVERY_MS = 60_000

export interface SoldByUseDeps {
  readonly selling: Selling
  readonly log: Pick<Log, 'warn'>
  readonly use: CompiledUse
}

/** The hooks of a link whose price depends on what a call has used. Its payments are charged after the response. */
export class SoldByUse extends Sold {
  readonly #deps: SoldByUseDeps
  readonly #offers: readonly Offer[]
  #warnedAtMs = Number.NEGATIVE_INFINITY

  constructor(deps: SoldByUseDeps, offers: readonly Offer[], challenges: Challenges) {
    super(deps.selling, { all: offers, channels: [] }, challenges)
    this.#deps = deps
    this.#offers = offers
  }

  override async verify(x: Exchange): Promise<void> {
    await super.verify(x)
    const { use } = this.#deps
    if (use.isStreamed && x.upgrade === null) x.meter = use.meter()
  }

  override async settle(x: Exchange): Promise<Reply | undefined> {
    if (x.settlement !== null) return
    const used = this.#useOf(x)
    // The seller broke off before the response had reported what it used. The buyer can use the payment again.
    if (used.problem !== null && x.meter?.ended === 'broken') return handled
    x.chargeAtomic = this.#chargeOf(x, used)
    return super.settle(x)
  }

  #useOf({ response, meter: streamed, sellerMs, settlementOverrides }: Exchange): Use {
    const { use } = this.#deps
    if (streamed !== null) return streamed.use(sellerMs)
    if (response === null || response.tunnel !== null)
      return use.unknown('the use of a WebSocket cannot be counted')
    const meter = use.meter()
    meter.begin({ mediaType: response.mediaType, overrides: settlementOverrides ?? [] })
    meter.push(response.body)
    meter.stop('whole')
    return meter.use(sellerMs)
  }

  /** The amount to charge in the asset of the payment, at most the authorized amount. */
  #chargeOf(x: Exchange, { charge, problem }: Use): bigint {
    const { network, asset, amountAtomic } = x.payment!.identity
    const offer = this.#offers.find(
      ({ terms }) => terms.network === network && terms.asset.toLowerCase() === asset.toLowerCase(),
    )!
    const charged = chargedAmount(charge, amountAtomic, offer.asset)
    if (problem !== null) this.#warn(x, 'use_not_known', problem)
    else if (charged.isCapped) this.#warn(x, 'charge_capped', 'the call has cost more than upTo of its price')
    return charged.amountAtomic
  }

  #warn({ link, claim }: Exchange, event: string, reason: string): void {
    const nowMs = performance.now()
    if (nowMs - this.#warnedAtMs < WARN_EVERY_MS) return
    this.#warnedAtMs = nowMs
    this.#deps.log.warn(
      { event, linkId: link.id, purchaseId: claim!.purchaseId, reason },
      'a call was not charged what it has cost',
    )
  }
}
