import type { FastifyInstance } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import { answers } from '../schema/answers.ts'

const none = {
  type: 'object',
  description: 'Of a service that holds money for its stores; this one does not.',
}

/**
 * `/api/v1/withdrawals`: buyers pay a store's own wallets, so there is no balance here that could be withdrawn, and no
 * list of such. Both methods say so with one answer, whatever is asked.
 */
export function withdrawalRoutes(app: FastifyInstance): void {
  const route = (method: 'GET' | 'POST', summary: string) =>
    app.route({
      method,
      url: '/api/v1/withdrawals',
      schema: {
        summary,
        description:
          'Answers 409 WITHDRAWALS_NOT_AVAILABLE: buyers pay the wallets of the store directly, and nothing is held for it.',
        response: answers({ 200: none }, 401, 409, 429),
      },
      handler: async () => {
        throw new TollgateError(
          'WITHDRAWALS_NOT_AVAILABLE',
          'There is nothing to withdraw: buyers pay the wallets of your store directly. GET /api/v1/profile shows them in payout, GET /api/v1/purchases what they received.',
        )
      },
    })
  route('GET', 'List withdrawals')
  route('POST', 'Withdraw')
}
