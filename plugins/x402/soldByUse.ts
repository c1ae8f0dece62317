import { setTimeout as sleep } from 'node:timers/promises'
import type { ChannelOffer } from '../../core/channels/offers.ts'
import type { Asset } from '../../core/domain/asset.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Challenges } from '../../core/offers/challenge.ts'
import { refusalOf } from '../../core/offers/presentedPayment.ts'
import type { PaidCall, PresentedPayment } from '../../core/payments/payments.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { handled, type Reply } from '../../core/plugin/gateway.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { isDatabaseDown } from '../../core/ports/refusals.ts'
import { chargedAmount } from '../../core/pricing/useCharge.ts'
import { CHARGE_LEAD_MS, type CompiledUse, type Use } from '../../core/pricing/useMeter.ts'
import { type OffersAtPrice, type Selling, Sold } from './pay.ts'

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

/**
 * The hooks of a link whose price depends on what a call has used. Its payments, which are of scheme `upto` or vouchers of channels, are
 * charged after the response.
 */
export class SoldByUse extends Sold {
  readonly #deps: SoldByUseDeps
  readonly #offers: OffersAtPrice
  #warnedAtMs = Number.NEGATIVE_INFINITY

  constructor(deps: SoldByUseDeps, offers: OffersAtPrice, challenges: Challenges) {
    super(deps.selling, offers, challenges)
    this.#deps = deps
    this.#offers = offers
  }

  override async verify(x: Exchange): Promise<void> {
    const { use, clock } = this.#deps
    const { payment, channelCall } = x
    const isStreamed = use.isStreamed && x.upgrade === null
    if (isStreamed && payment !== null) this.#assertLastsLong(payment)
    await super.verify(x)
    if (!isStreamed) return
    x.meter = use.meter(
      channelCall === null
        ? payment!.identity.validBeforeMs
        : clock.now() + 1_000 * secondsOfStream(channelCall.offer),
    )
    // The client has to learn that its deposit has landed. The charge is not known yet.
    const deposited = channelCall === null ? null : this.#deps.selling.byChannel!.depositReceipt(channelCall)
    if (deposited !== null) x.addHeader('PAYMENT-RESPONSE', deposited)
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
    const { chargeUntilMs } = x.meter!
    for (let pauseMs = 0; ; pauseMs = Math.min(Math.max(FIRST_PAUSE_MS, 2 * pauseMs), MAX_PAUSE_MS)) {
      try {
        if (pauseMs > 0) await sleep(pauseMs)
        if (pauseMs > 0 && x.claim !== null) await this.#verifyAgain(x.claim)
        return await super.settle(x)
      } catch (error) {
        // A channel that another process has taken stays with it.
        const isOver = x.channelCall === null ? !mayPass(error) : !isDatabaseDown(error)
        if (isOver || this.#deps.clock.now() + pauseMs >= chargeUntilMs) throw error
      }
    }
  }

  /** Reserves again what the settler has released, and finds out whether the buyer has moved the money away. */
  async #verifyAgain(claim: PaidCall): Promise<void> {
    const verified = await this.#deps.selling.payments.verify(claim)
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
    const { mostAtomic, asset } = this.#authorizedBy(x)
    const charged = chargedAmount(charge, mostAtomic, asset)
    if (problem !== null) this.#warn(x, 'use_not_known', problem)
    else if (charged.isCapped) this.#warn(x, 'charge_capped', 'the call has cost more than upTo of its price')
    return charged.amountAtomic
  }

  #authorizedBy({ payment, channelCall }: Exchange): { readonly mostAtomic: bigint; readonly asset: Asset } {
    if (channelCall !== null)
      return { mostAtomic: channelCall.offer.priceAtomic, asset: channelCall.offer.asset }
    const { network, asset, amountAtomic } = payment!.identity
    const offer = this.#offers.all.find(
      ({ terms }) => terms.network === network && terms.asset.toLowerCase() === asset.toLowerCase(),
    )!
    return { mostAtomic: amountAtomic, asset: offer.asset }
  }

  #warn({ link, claim, channelCall }: Exchange, event: string, reason: string): void {
    const nowMs = performance.now()
    if (nowMs - this.#warnedAtMs < WARN_EVERY_MS) return
    this.#warnedAtMs = nowMs
    this.#deps.log.warn(
      { event, linkId: link.id, purchaseId: claim?.purchaseId ?? channelCall?.note.id, reason },
      'a call was not charged what it has cost',
    )
  }
}

/**
 * How long a response that a channel pays may last, in seconds. A payer who requests a withdrawal meanwhile must not be able to end it
 * before the charge is claimed.
 */
const secondsOfStream = ({ terms, channels }: ChannelOffer): number =>
  Math.min(terms.maxTimeoutSeconds, channels.withdrawDelaySeconds / 2)

/** Whether a charge that could not begin may begin later. A settler's refusal has a reason, and a claim that was lost has none. */
const mayPass = (error: unknown): boolean =>
  isDatabaseDown(error) ||
  (isTollgateError(error) && error.code === 'settlement_unavailable' && error.reason !== undefined)
