import type { FastifyInstance } from 'fastify'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { type IdParams, idParams } from '../http/ids.ts'
import { ownPurchase } from '../purchases/ownPurchase.ts'
import { answers, exactly, listOf, success, textOrNull } from '../schema/answers.ts'
import { attentionOf, attentionSchema } from './attention.ts'
import { stepSchema, stepsOf } from './paymentSteps.ts'
import { refundTransferOf, refundTransferSchema } from './refundTransfer.ts'

const stepsAnswer = exactly({
  steps: listOf(stepSchema),
  sessionTitle: textOrNull('Of the payment session that it paid.'),
  refund: refundTransferSchema,
})

/** What the dashboard shows that no program needs: what waits for the seller, and how a payment went. */
export function overviewRoutes(app: FastifyInstance, api: Api): void {
  app.get(
    '/api/dashboard/attention',
    {
      schema: {
        summary: 'What waits for the seller',
        description: 'The most pressing first; empty when nothing does.',
        response: answers({ 200: success(exactly({ items: listOf(attentionSchema) })) }, 401, 429),
      },
    },
    async (request) => ok({ items: await attentionOf(api, callerOf(request).store) }),
  )

  app.get<{ Params: IdParams }>(
    '/api/dashboard/purchases/:id/steps',
    {
      schema: {
        summary: 'How a payment went',
        description:
          'The steps oldest first; what was bought, by its title; and the transfer that refunds it, where one can.',
        params: idParams,
        response: answers({ 200: success(stepsAnswer) }, 401, 404, 429),
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
