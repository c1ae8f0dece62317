import type { FastifyInstance } from 'fastify'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { type IdParams, idParams } from '../http/ids.ts'
import { ownPurchase } from '../purchases/ownPurchase.ts'
import { titledPurchaseSchema, toTitledViews } from '../purchases/purchaseView.ts'
import { answers, success } from '../schema/answers.ts'
import type { Infer } from '../schema/infer.ts'
import { refundPurchase } from './refundPurchase.ts'

const refundBody = {
  type: 'object',
  additionalProperties: false,
  required: ['txHash'],
  properties: {
    txHash: {
      type: 'string',
      minLength: 1,
      maxLength: 128,
      description: 'The transfer back: a 0x hash on EVM networks, a base58 signature on Solana.',
    },
  },
} as const

/** `POST /api/v1/purchases/:id/refunds`: the seller has sent the money back and says by which transaction. */
export function refundRoute(app: FastifyInstance, api: Api): void {
  app.post<{ Params: IdParams; Body: Infer<typeof refundBody> }>(
    '/api/v1/purchases/:id/refunds',
    {
      schema: {
        summary: 'Mark a purchase as refunded',
        description:
          'Send at least the amount, in the same token, from the wallet that was paid to buyerWallet; then name that transaction. It is verified on chain. One transaction refunds one purchase; repeating the request answers the same.',
        params: idParams,
        body: refundBody,
        response: answers({ 200: success(titledPurchaseSchema) }, 400, 401, 404, 409, 422, 429, 503),
      },
    },
    async (request) => {
      const purchase = await ownPurchase(api, request, request.params.id)
      const refunded = await refundPurchase(api, purchase, request.body.txHash)
      return ok((await toTitledViews(api.links, [refunded]))[0])
    },
  )
}
