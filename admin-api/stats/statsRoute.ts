import type { FastifyInstance } from 'fastify'
import { formatAmount } from '../../core/domain/money.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { ownLinkFilter } from '../links/ownLink.ts'
import { answers, count, exactly, success, text } from '../schema/answers.ts'
import { daysOf, type Period, periodField, periods, REVENUE_PLACES } from './period.ts'

const query = {
  type: 'object',
  properties: {
    period: periodField,
    linkId: { type: 'string', description: 'Of this link only.' },
  },
} as const

interface Query {
  readonly period: Period
  readonly linkId?: string
}

/** `GET /api/v1/stats`: views, buyers and revenue of the caller's store. */
export function statsRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: Query }>(
    '/api/v1/stats',
    {
      schema: {
        summary: 'Read the figures',
        description:
          "Revenue is the sum of what stands, in USDC; refunded and reorganised purchases are not in it. Views are free calls and 402 answers, each caller once an hour. Buyers and revenue leave out what the store's own wallets bought. A period begins with its first day, in UTC.",
        querystring: query,
        response: answers(
          {
            200: success(
              exactly({ period: { enum: periods }, views: count, buyers: count, revenue: text() }),
            ),
          },
          400,
          401,
          404,
          429,
        ),
      },
    },
    async (request) => {
      const { period } = request.query
      const linkId = await ownLinkFilter(api, request, request.query.linkId)
      const { views, buyers, revenueE18 } = await api.figures.totals(callerOf(request).store.id, {
        ...daysOf(period, api.clock.now()),
        ...(linkId !== undefined && { linkId }),
      })
      return ok({ period, views, buyers, revenue: formatAmount(revenueE18, REVENUE_PLACES, REVENUE_PLACES) })
    },
  )
}
