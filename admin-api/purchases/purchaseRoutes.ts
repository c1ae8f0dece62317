import type { FastifyInstance } from 'fastify'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { type IdParams, idParams } from '../http/ids.ts'
import { ownLinkFilter } from '../links/ownLink.ts'
import { answers, exactly, listOf, success, textOrNull } from '../schema/answers.ts'
import { ownPurchase } from './ownPurchase.ts'
import { purchaseSchema, toPurchaseView } from './purchaseView.ts'
import { toCsv } from './toCsv.ts'

const pageQuery = {
  type: 'object',
  properties: {
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
    cursor: { type: 'string', minLength: 1, maxLength: 512, description: '`nextCursor` of the page before.' },
    linkId: { type: 'string', description: 'Purchases of this link only.' },
  },
} as const

interface PageQuery {
  readonly limit: number
  readonly cursor?: string
  readonly linkId?: string
}

/** `/api/v1/purchases`: what the caller's store sold. */
export function purchaseRoutes(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: PageQuery }>(
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
                purchases: listOf(purchaseSchema),
                nextCursor: textOrNull('Null on the last page.'),
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
      const { limit, cursor } = request.query
      const linkId = await ownLinkFilter(api, request, request.query.linkId)
      const page = await api.purchases.page(callerOf(request).store.id, {
        limit,
        ...(cursor !== undefined && { cursor }),
        ...(linkId !== undefined && { linkId }),
      })
      const purchases = page.purchases.map(toPurchaseView)
      reply.header('vary', 'Accept')
      if (page.nextCursor !== null) reply.header('link', nextLink(api, page.nextCursor, limit, linkId))
      if (!prefersCsv(request.headers.accept)) return ok({ purchases, nextCursor: page.nextCursor })
      return reply
        .type('text/csv; charset=utf-8; header=present')
        .header('content-disposition', 'attachment; filename="purchases.csv"')
        .send(toCsv(purchases))
    },
  )

  app.get<{ Params: IdParams }>(
    '/api/v1/purchases/:id',
    {
      schema: {
        summary: 'Read a purchase',
        params: idParams,
        response: answers({ 200: success(purchaseSchema) }, 401, 404, 429),
      },
    },
    async (request) => {
      return ok(toPurchaseView(await ownPurchase(api, request, request.params.id)))
    },
  )
}

/** JSON unless CSV is asked for by name, before or without JSON. */
function prefersCsv(accept: string | undefined): boolean {
  if (accept === undefined) return false
  const csvAt = accept.indexOf('text/csv')
  const jsonAt = accept.indexOf('application/json')
  return csvAt >= 0 && (jsonAt < 0 || csvAt < jsonAt)
}

/** RFC 8288: where the next page is, for answers that have no place for a cursor. */
function nextLink(api: Api, cursor: string, limit: number, linkId: string | undefined): string {
  const query = new URLSearchParams({ cursor, limit: String(limit), ...(linkId !== undefined && { linkId }) })
  return `<${api.publicUrl}/api/v1/purchases?${query}>; rel="next"`
}
