import type { FastifyInstance } from 'fastify'
import { type UnusualStatus, unusualStatuses } from '../../core/domain/purchase.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { type IdParams, idParams } from '../http/ids.ts'
import { nextLink } from '../http/nextLink.ts'
import { prefersCsv } from '../http/prefersCsv.ts'
import { toCsv } from '../http/toCsv.ts'
import { ownLinkFilter } from '../links/ownLink.ts'
import { answers, exactly, listOf, success } from '../schema/answers.ts'
import { nextCursorField, type PageQuery, pageFields } from '../schema/page.ts'
import { ownPurchase } from './ownPurchase.ts'
import { type PurchaseView, titledPurchaseSchema, toTitledViews } from './purchaseView.ts'

const pageQuery = {
  type: 'object',
  properties: {
    ...pageFields,
    linkId: { type: 'string', description: 'Purchases of this link only.' },
    status: { type: 'string', enum: unusualStatuses, description: 'Purchases in this state only.' },
  },
} as const

const csvColumns = [
  'id',
  'createdAt',
  'linkId',
  'status',
  'amount',
  'fee',
  'currency',
  'price',
  'chain',
  'network',
  'asset',
  'buyerWallet',
  'txHash',
  'sessionId',
] as const satisfies readonly (keyof PurchaseView)[]

interface ListQuery extends PageQuery {
  readonly linkId?: string
  readonly status?: UnusualStatus
}

/** `/api/v1/purchases`: what the caller's store sold. */
export function purchaseRoutes(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: ListQuery }>(
    '/api/v1/purchases',
    {
      schema: {
        summary: 'List the purchases',
        description: 'Newest first. With Accept: text/csv a table; the next page is then in the Link header.',
        querystring: pageQuery,
        response: answers(
          {
            200: success(
              exactly({
                purchases: listOf(titledPurchaseSchema),
                nextCursor: nextCursorField,
              }),
            ),
          },
          400,
          401,
          404,
          429,
        ),
      },
    },
    async (request, reply) => {
      const { limit, cursor, status } = request.query
      const linkId = await ownLinkFilter(api, request, request.query.linkId)
      const page = await api.purchases.page(callerOf(request).store.id, {
        limit,
        ...(cursor !== undefined && { cursor }),
        ...(linkId !== undefined && { linkId }),
        ...(status !== undefined && { status }),
      })
      const purchases = await toTitledViews(api.links, page.purchases)
      reply.header('vary', 'Accept')
      if (page.nextCursor !== null)
        reply.header(
          'link',
          nextLink(api, '/api/v1/purchases', { cursor: page.nextCursor, limit, linkId, status }),
        )
      if (!prefersCsv(request.headers.accept)) return ok({ purchases, nextCursor: page.nextCursor })
      return reply
        .type('text/csv; charset=utf-8; header=present')
        .header('content-disposition', 'attachment; filename="purchases.csv"')
        .send(toCsv(csvColumns, purchases))
    },
  )

  app.get<{ Params: IdParams }>(
    '/api/v1/purchases/:id',
    {
      schema: {
        summary: 'Read a purchase',
        params: idParams,
        response: answers({ 200: success(titledPurchaseSchema) }, 401, 404, 429),
      },
    },
    async (request) => {
      const [purchase] = await toTitledViews(api.links, [await ownPurchase(api, request, request.params.id)])
      return ok(purchase)
    },
  )
}
