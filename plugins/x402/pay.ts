import type { StoredAnswer } from '../../core/domain/payment.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { Payments } from '../../core/payments/payments.ts'
import { failedForGood, settlementPending } from '../../core/payments/refusals.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { handled, type Reply, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { OwnSlot } from '../../core/plugin/slots.ts'
import { linkNotFound } from '../../core/ports/refusals.ts'
import type { Challenges } from '../../core/x402/challenge.ts'
import { receiptHeaders } from '../../core/x402/header.ts'
import type { Offer } from '../../core/x402/offers.ts'
import { presentPayment, refusalOf, type Taken } from '../../core/x402/presentPayment.ts'

/** What is the same for all links. */
export interface Selling {
  readonly payments: Payments
  readonly acceptV1: boolean
  readonly publicUrl: string
  /** Whether the payment was refused for what its payer has done, whatever the answer's status. */
  readonly payersDoing: OwnSlot<boolean>
}

/** The hooks of a link that is sold: what is the same for all links is not kept with each. */
export class Sold implements RouteHooks {
  readonly #selling: Selling
  readonly #offers: readonly Offer[]
  readonly offer: Challenges

  /** @param offers those too that do not stand in the 402 any more */
  constructor(selling: Selling, offers: readonly Offer[], challenges: Challenges) {
    this.#selling = selling
    this.#offers = offers
    this.offer = challenges
  }

  pay(x: Exchange) {
    const { payments, acceptV1, publicUrl } = this.#selling
    return pay(x, {
      offers: this.#offers,
      challenges: this.offer,
      payments,
      acceptV1,
      publicUrl,
      host: () => x.header('host'),
    })
  }

  verify(x: Exchange) {
    return verify(x, this.#selling)
  }

  settle(x: Exchange) {
    return settle(x, this.#selling.payments)
  }
}

/** Of a link that is no more. */
export class Former extends Sold {
  override pay(x: Exchange) {
    return payForRepeat(x, () => super.pay(x))
  }
}

/** What is taken for a link, and what whoever has not paid is told. */
interface Sale extends Taken {
  readonly challenges: Challenges
}

/** The pay phase: no payment, the 402; a payment, its terms and its signature. */
function pay(x: Exchange, sale: Sale): Reply | void | Promise<Reply | void> {
  // HEAD is never a way past the price: it gets the 402, and node leaves the body out.
  if (x.paymentHeader === null || x.method === 'HEAD') {
    const { looking } = sale.challenges
    if (looking !== undefined) return looking.then(() => unpaid(x, sale))
    return unpaid(x, sale)
  }
  const presented = presentPayment(x.paymentHeader, x.x402Version, sale)
  if (presented instanceof Promise) return presented.then((late) => void (x.payment = late))
  x.payment = presented
}

function unpaid({ x402Version, subPath, query }: Exchange, { challenges }: Sale): Reply {
  if (subPath !== '' || query !== '') return challenges.at(x402Version, subPath + query)
  return x402Version === 1 ? challenges.v1 : challenges.v2
}

/**
 * The pay phase where no link is any more: whoever has paid for a call of one that was there gets what is owed to him, and
 * nobody else learns anything.
 */
async function payForRepeat(x: Exchange, payNow: () => ReturnType<typeof pay>): Promise<undefined> {
  try {
    await payNow()
  } catch (error) {
    throw isTollgateError(error) && error.code === 'invalid_payment' ? linkNotFound() : error
  }
  if (x.payment === null) throw linkNotFound()
  x.payment = { ...x.payment, unclaimable: linkNotFound() }
}

/** The verify phase: asks before the seller works. A payment that has settled already is being served late. */
async function verify(x: Exchange, { payments, payersDoing }: Selling): Promise<void> {
  if (x.settlement !== null) return
  const verified = await payments.verify(x.claim!)
  if (verified.ok) return
  if (verified.isPayersDoing) payersDoing.set(x, true)
  throw refusalOf(verified)
}

/** The settle phase: charges the price, and says what a settlement that did not go through means for the buyer. */
async function settle(x: Exchange, payments: Payments): Promise<Reply | undefined> {
  if (x.settlement !== null) return
  // The seller has not been asked: a buyer who hung up keeps the payment.
  if (x.link.settle === 'before' && x.door.isClosed) return handled
  const { payload, identity } = x.payment!
  const sinceMs = performance.now()
  const end = await payments.settle(x.claim!, answerToKeep(x)).finally(() => {
    x.settleMs = performance.now() - sinceMs
  })
  switch (end.status) {
    case 'settled': {
      const transaction = end.transaction ?? ''
      const { network, payer } = identity
      const receipt = { success: true, transaction, network, payer, amount: end.chargedAtomic.toString() }
      x.settlement = { transaction, headers: receiptHeaders(payload.x402Version, receipt) }
      return
    }
    case 'pending':
      throw settlementPending(
        'The payment was sent and its outcome is not known yet.',
        x.claim!.purchaseId,
        end.transaction,
        end.reason,
      )
    case 'failed':
      throw failedForGood({ errorReason: end.reason }, end.transaction)
    case 'rejected':
      throw refusalOf({ ok: false, ...end })
  }
}

function answerToKeep({ answer }: Exchange): StoredAnswer | null {
  if (answer === null || answer.tunnel !== null) return null
  return { status: answer.status, headers: answer.headers, body: answer.body }
}
