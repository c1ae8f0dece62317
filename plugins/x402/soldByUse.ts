import { setTimeout as sleep } from 'node:timers/promises'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Challenges } from '../../core/offers/challenge.ts'
import type { Offer } from '../../core/offers/offers.ts'
import { refusalOf } from '../../core/offers/presentedPayment.ts'
import type { PresentedPayment } from '../../core/payments/payments.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { handled, type Reply } from '../../core/plugin/gateway.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { isDatabaseDown } from '../../core/ports/refusals.ts'
import { chargedAmount } from '../../core/pricing/useCharge.ts'
import { CHARGE_LEAD_MS, type CompiledUse, type Use } from '../../core/pricing/useMeter.ts'
import { type Selling, Sold } from './pay.ts'

/** Minimum time between two log lines about the charges of a link, in ms. */
const WARN_EVERY_MS = 60_000
/** First and longest pause between two attempts to charge a response that was already sent, in ms. */
const FIRST_PAUSE_MS = 250
const MAX_PAUSE_MS = 5_000

export interface SoldByUseDeps {
  readonly selling: Selling
  readonly clock: Clock
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
    const { use } = this.#deps
    const isStreamed = use.isStreamed && x.upgrade === null
    if (isStreamed) this.#assertLastsLong(x.payment!)
    await super.verify(x)
    if (isStreamed) x.meter = use.meter()
  }

  /**
   * Refuses an authorization that leaves a stream less than half of the time that the 402 offers. A buyer could otherwise choose one
   * that ends while the seller works, and have the seller work for nothing.
   *
   * @throws `invalid_payment`
   */
  #assertLastsLong({ identity, terms: { maxTimeoutSeconds } }: PresentedPayment): void {
    const leastMs = (CHARGE_LEAD_MS + maxTimeoutSeconds * 1_000) / 2
    if (identity.validBeforeMs - this.#deps.clock.now() >= leastMs) return
    throw new TollgateError(
      'invalid_payment',
      `Expected an authorization that is valid for at least ${Math.ceil(leastMs / 1_000)} more seconds, because this response is streamed and charged at its end. Sign a new one, valid for maxTimeoutSeconds of the offer.`,
      { reason: 'permit2_deadline_expired' },
    )
  }

  override async settle(x: Exchange): Promise<Reply | undefined> {
    if (x.settlement !== null) return
    const used = this.#useOf(x)
    // The seller broke off before the response had reported what it used. The buyer can use the payment again.
    if (used.problem !== null && x.meter?.ended === 'broken') return handled
    x.chargeAtomic = this.#chargeOf(x, used)
    return x.meter === null ? super.settle(x) : this.#settleSent(x)
  }

  /**
   * Charges a response that the buyer already has. If the charge cannot begin now, for example because no node responds, it is tried
   * again while the payment is valid. Otherwise the payment would be free again, and the seller would have worked for nothing.
   */
  async #settleSent(x: Exchange): Promise<Reply | undefined> {
    const { validBeforeMs } = x.payment!.identity
    for (let pauseMs = 0; ; pauseMs = Math.min(Math.max(FIRST_PAUSE_MS, 2 * pauseMs), MAX_PAUSE_MS)) {
      try {
        if (pauseMs > 0) await this.#verifyAgain(x, pauseMs)
        return await super.settle(x)
      } catch (error) {
        if (!mayPass(error) || this.#deps.clock.now() + pauseMs >= validBeforeMs) throw error
      }
    }
  }

  /** Reserves again what the settler has released, and finds out whether the buyer has moved the money away. */
  async #verifyAgain({ claim }: Exchange, pauseMs: number): Promise<void> {
    await sleep(pauseMs)
    const verified = await this.#deps.selling.payments.verify(claim!)
    if (!verified.ok) throw refusalOf(verified)
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

/** Whether a charge that could not begin may begin later. A settler's refusal has a reason, and a claim that was lost has none. */
const mayPass = (error: unknown): boolean =>
  isDatabaseDown(error) ||
  (isTollgateError(error) && error.code === 'settlement_unavailable' && error.reason !== undefined)
