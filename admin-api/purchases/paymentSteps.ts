import type { FastifyInstance } from 'fastify'
import { chainNameOf } from '../../core/domain/network.ts'
import { notCollected, refundedTwice } from '../../core/domain/payment.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import { transferBackOf } from '../../core/ports/chains/refundProofs.ts'
import type { Api } from '../deps.ts'
import { type IdParams, idParams, ownPurchase } from '../http/ownership.ts'
import { exactly, field, isoTime, listOf, ok, respond, success } from '../http/responses.ts'

const steps = ['claimed', 'settled', 'delivered', 'refund_due', 'refunded', 'reorged'] as const

/** One event in the life of a payment. */
interface PaymentStep {
  readonly step: (typeof steps)[number]
  readonly at: string
  readonly detail: string
  readonly txHash: string | null
}

const stepSchema = exactly({
  step: { enum: steps },
  at: field.time,
  detail: field.text(),
  txHash: field.textOrNull(),
})

/** The steps of a payment that the ledger records, oldest first. Each step has the last time at which its state was reached. */
async function stepsOf(api: Api, purchase: Purchase): Promise<PaymentStep[]> {
  const [payment, refund, lost] = await Promise.all([
    api.payments.find(purchase.paymentKey),
    api.purchases.refundOf(purchase.id),
    api.purchases.lostRefundsOf(purchase.id),
  ])
  const found: PaymentStep[] = []
  const add = (step: PaymentStep['step'], atMs: number, detail: string, txHash: string | null = null) =>
    void found.push({ step, at: isoTime(atMs), detail, txHash })

  if (payment !== undefined) add('claimed', payment.claimedAtMs, 'The signed payment arrived with the call.')
  const block = payment?.block == null ? '' : ` in block ${payment.block}`
  add('settled', purchase.createdAtMs, `The payment was settled on chain${block}.`, purchase.txHash)
  const atMs = payment?.updatedAtMs ?? purchase.createdAtMs
  const reason = payment?.errorReason == null ? '' : ` Reason: ${payment.errorReason}.`
  for (const { refundedAtMs, lostAtMs, transaction } of lost) {
    add('refunded', refundedAtMs, 'You refunded the payment.', transaction)
    add(
      'refund_due',
      lostAtMs,
      'The refund left the chain, so the buyer does not have the money.',
      transaction,
    )
  }
  switch (purchase.status) {
    case 'delivered':
      if (payment?.errorReason === notCollected)
        add('delivered', atMs, 'The buyer disconnected and did not fetch the response within a day.')
      else add('delivered', atMs, 'The buyer got the response.')
      break
    case 'refund_due':
      if (lost.length === 0) add('refund_due', atMs, `A refund is due to the buyer.${reason}`)
      break
    case 'reorged':
      add('reorged', atMs, 'The transfer left the chain.')
      break
    case 'refunded':
      add('refunded', refund?.refundedAtMs ?? atMs, 'You refunded the payment.', refund?.transaction ?? null)
      if (payment?.errorReason === refundedTwice)
        add('refunded', atMs, 'A refund that had left the chain is back, so the buyer was refunded twice.')
      break
    case 'settled':
  }
  return found
}

/** The transfer that refunds a purchase from the seller's wallet, as `POST /api/v1/purchases/:id/refunds` checks it. */
const transfer = exactly({
  chain: { enum: ['base', 'solana'] },
  network: field.text('CAIP-2.'),
  asset: field.text(),
  from: field.text('The wallet that was paid.'),
  to: field.text('The wallet of the buyer.'),
  amountAtomic: field.text('The amount in the smallest unit of the token.'),
  decimals: { ...field.count, description: 'Decimals of the token.' },
  tokenProgram: { enum: ['token', 'token-2022'], description: 'The token program (Solana only).' },
  lostTxHash: field.textOrNull(
    'The transaction of the last refund that left the chain and may still return. The described transfer replaces this refund.',
  ),
})

const refundTransferSchema = { anyOf: [transfer, { type: 'null' }] } as const

/** @returns null if there is nothing left to refund */
async function refundTransferOf(api: Api, purchase: Purchase) {
  if (purchase.status === 'refunded' || purchase.status === 'reorged') return null
  const [payment, lost] = await Promise.all([
    api.payments.find(purchase.paymentKey),
    api.purchases.lostRefundsOf(purchase.id),
  ])
  if (payment === undefined) return null
  const { network, asset, from, to, amountAtomic } = transferBackOf(purchase, payment, '')
  const known = api.assets.find((one) => one.network === network && one.address === asset)
  return {
    chain: chainNameOf(network),
    network,
    asset,
    from,
    to,
    amountAtomic: String(amountAtomic),
    decimals: purchase.decimals,
    tokenProgram: known?.program ?? 'token',
    lostTxHash: lost.at(-1)?.transaction ?? null,
  }
}

const stepsResponse = exactly({
  steps: listOf(stepSchema),
  sessionTitle: field.textOrNull('The title of the payment session that the payment paid.'),
  refund: refundTransferSchema,
})

/** `GET /api/dashboard/purchases/:id/steps` returns the steps of a payment, for the dashboard. */
export function paymentStepsRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Params: IdParams }>(
    '/api/dashboard/purchases/:id/steps',
    {
      schema: {
        summary: 'Read the steps of a payment',
        description:
          'Lists the steps of a payment, oldest first. Also returns the title of what was bought and, if a refund is possible, the transfer that refunds the purchase.',
        params: idParams,
        response: respond({ 200: success(stepsResponse) }, [401, 404, 429]),
      },
    },
    async (request) => {
      const purchase = await ownPurchase(api, request, request.params.id)
      const [steps, sessionTitle, refund] = await Promise.all([
        stepsOf(api, purchase),
        purchase.sessionId === null
          ? null
          : api.sessions.find(purchase.sessionId).then((session) => session?.title ?? null),
        refundTransferOf(api, purchase),
      ])
      return ok({ steps, sessionTitle, refund })
    },
  )
}
