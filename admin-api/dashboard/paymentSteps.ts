import { notCollected, refundLeftChain } from '../../core/domain/payment.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/envelope.ts'
import { exactly, text, textOrNull, time } from '../schema/answers.ts'

const steps = ['claimed', 'settled', 'delivered', 'refund_due', 'refunded', 'reorged'] as const

/** One thing that happened to a payment. */
export interface PaymentStep {
  readonly step: (typeof steps)[number]
  readonly at: string
  readonly detail: string
  readonly txHash: string | null
}

export const stepSchema = exactly({ step: { enum: steps }, at: time, detail: text(), txHash: textOrNull() })

/** How a payment went, the oldest step first, as far as the books keep it: of each state the last time it was reached. */
export async function stepsOf(api: Api, purchase: Purchase): Promise<PaymentStep[]> {
  const [payment, refund] = await Promise.all([
    api.payments.find(purchase.paymentKey),
    api.purchases.refundOf(purchase.id),
  ])
  const found: PaymentStep[] = []
  const add = (step: PaymentStep['step'], atMs: number, detail: string, txHash: string | null = null) =>
    void found.push({ step, at: isoTime(atMs), detail, txHash })

  if (payment !== undefined) add('claimed', payment.claimedAtMs, 'The signed payment came with the call.')
  const block = payment?.block == null ? '' : ` in block ${payment.block}`
  add('settled', purchase.createdAtMs, `The money moved${block}.`, purchase.txHash)
  const atMs = payment?.updatedAtMs ?? purchase.createdAtMs
  const reason = payment?.errorReason == null ? '' : ` Reason: ${payment.errorReason}.`
  switch (purchase.status) {
    case 'delivered':
      if (payment?.errorReason === notCollected)
        add('delivered', atMs, 'The buyer hung up, and did not come back for the answer within a day.')
      else add('delivered', atMs, 'The buyer got the answer.')
      break
    case 'refund_due':
      add('refund_due', atMs, `The buyer is owed the money back.${reason}`)
      break
    case 'reorged':
      add('reorged', atMs, 'The transfer left the chain again.')
      break
    case 'refunded':
      add('refunded', refund?.refundedAtMs ?? atMs, 'You sent the money back.', refund?.transaction ?? null)
      if (payment?.errorReason === refundLeftChain)
        add('refund_due', atMs, 'The transfer back left the chain again: the buyer does not have the money.')
      break
    case 'settled':
  }
  return found
}
