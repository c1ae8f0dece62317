import type { StoredAnswer } from '../../core/domain/payment.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { Payments } from '../../core/payments/payments.ts'
import { settlementPending } from '../../core/payments/refusals.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Hook } from '../../core/plugin/gateway.ts'
import { linkNotFound } from '../../core/ports/refusals.ts'
import type { Challenges } from '../../core/x402/challenge.ts'
import { receiptHeaders } from '../../core/x402/header.ts'
import type { Offer } from '../../core/x402/offers.ts'
import { presentPayment, refusalOf } from '../../core/x402/presentPayment.ts'

/** The pay phase of one link: no payment, the 402; a payment, its terms and its signature. */
export function payHook(
  offers: readonly Offer[],
  challenges: Challenges,
  payments: Pick<Payments, 'find'>,
  acceptV1: boolean,
): Hook {
  const unpaid = (x: Exchange) => (x.x402Version === 1 && acceptV1 ? challenges.v1 : challenges.v2)
  const taken = { offers, payments, acceptV1 }
  return (x) => {
    // HEAD is never a way past the price: it gets the 402, and node leaves the body out.
    if (x.paymentHeader === null || x.method === 'HEAD') {
      const { looking } = challenges
      if (looking !== undefined) return looking.then(() => unpaid(x))
      return unpaid(x)
    }
    const presented = presentPayment(x.paymentHeader, x.x402Version, taken)
    if (presented instanceof Promise) return presented.then((late) => void (x.payment = late))
    x.payment = presented
  }
}

/**
 * The pay phase where no link is any more: whoever has paid for a call of one that was there gets what is owed to him, and
 * nobody else learns anything.
 */
export function repeatsOnly(pay: Hook): Hook {
  return async (x) => {
    try {
      await pay(x)
    } catch (error) {
      throw isTollgateError(error) && error.code === 'invalid_payment' ? linkNotFound() : error
    }
    if (x.payment === null) throw linkNotFound()
    x.payment = { ...x.payment, unclaimable: linkNotFound() }
  }
}

/** The verify phase: asks before the seller works. A payment that has settled already is being served late. */
export function verifyHook(payments: Payments): Hook {
  return async (x) => {
    if (x.settlement !== null) return
    const verified = await payments.verify(x.claim!)
    if (!verified.ok) throw refusalOf(verified)
  }
}

/** The settle phase: charges the price, and says what a settlement that did not go through means for the buyer. */
export function settleHook(payments: Payments, challenges: Challenges): Hook {
  return async (x) => {
    if (x.settlement !== null) return
    const { payload, identity } = x.payment!
    const version = payload.x402Version
    const receipt = (success: boolean, transaction: string, amountAtomic: bigint, errorReason?: string) =>
      receiptHeaders(version, {
        ...{ success, transaction, network: identity.network, payer: identity.payer },
        amount: amountAtomic.toString(),
        ...(errorReason !== undefined && { errorReason }),
      })
    const unpaid = (reason: string, transaction: string) => {
      x.errorCode = reason
      return challenges.because(version, reason, receipt(false, transaction, identity.amountAtomic, reason))
    }
    const end = await payments.settle(x.claim!, answerToKeep(x))
    switch (end.status) {
      case 'settled': {
        const transaction = end.transaction ?? ''
        x.settlement = { transaction, headers: receipt(true, transaction, end.chargedAtomic) }
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
        return unpaid(end.reason, end.transaction)
      case 'rejected':
        if (end.transient) throw refusalOf({ ok: false, ...end })
        return unpaid(end.reason, '')
    }
  }
}

function answerToKeep({ answer }: Exchange): StoredAnswer | null {
  if (answer === null || answer.tunnel !== null) return null
  return { status: answer.status, headers: answer.headers, body: answer.body }
}
