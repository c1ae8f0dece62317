import type { FastifyInstance } from 'fastify'
import { formatAmount } from '../../core/domain/money.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { ownLinkFilter } from '../links/ownLink.ts'
import { answers, count, exactly, success, text } from '../schema/answers.ts'

const dayMs = 24 * 60 * 60_000
const days = { '7d': 7, '30d': 30, '90d': 90 } as const
const periods = ['7d', '30d', '90d', 'all'] as const
/** Revenue is shown with as many places (marketplace interface, section 2). */
const REVENUE_PLACES = 18

const query = {
  type: 'object',
  properties: {
    period: { type: 'string', enum: periods, default: '30d' },
    linkId: { type: 'string', description: 'Of this link only.' },
  },
} as const

interface Query {
  readonly period: (typeof periods)[number]
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
          "Revenue is the sum of what stands, in USDC; refunded and reorganised purchases are not in it. Views are free calls and 402 answers, each caller once an hour. Buyers and revenue leave out the store's own wallets.",
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
      const sinceMs = period === 'all' ? 0 : api.clock.now() - days[period] * dayMs
      const { views, buyers, revenueE18 } = await api.purchases.stats(callerOf(request).store.id, {
        sinceMs,
        ...(linkId !== undefined && { linkId }),
      })
      return ok({ period, views, buyers, revenue: formatAmount(revenueE18, REVENUE_PLACES, REVENUE_PLACES) })
    },
  )
}
