import type { StoredAnswer } from '../../core/domain/payment.ts'
import type { Payments } from '../../core/payments/payments.ts'
import { settlementPending } from '../../core/payments/refusals.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Hook } from '../../core/plugin/gateway.ts'
import { receiptHeaders } from '../../core/x402/header.ts'
import type { Challenges } from './challenge.ts'
import { refusal } from './pay.ts'

/** The verify phase: asks before the seller works. A payment that has settled already is being served late. */
export function verifyHook(payments: Payments): Hook {
  return async (x) => {
    if (x.settlement !== null) return
    const verified = await payments.verify(x.claim!)
    if (!verified.ok) throw refusal(verified)
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
        if (end.transient) throw refusal({ ok: false, ...end })
        return unpaid(end.reason, '')
    }
  }
}

function answerToKeep({ answer }: Exchange): StoredAnswer | null {
  if (answer === null || answer.tunnel !== null) return null
  return { status: answer.status, headers: answer.headers, body: answer.body }
}
