import type { FastifyInstance } from 'fastify'
import { formatAmount } from '../../core/domain/money.ts'
import { chainNameOf, explorerUrl } from '../../core/domain/network.ts'
import { type Purchase, unusualStatuses } from '../../core/domain/purchase.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Links } from '../../core/ports/store/links.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { type IdParams, idParams, ownLinkFilter, ownPurchase } from '../http/ownership.ts'
import {
  exactly,
  field,
  isoTime,
  listOf,
  nextLink,
  ok,
  paging,
  prefersCsv,
  respond,
  success,
  toCsv,
} from '../http/responses.ts'

/** A purchase as its seller sees it. Amounts are decimal strings in `currency`. */
const purchaseSchema = exactly({
  id: field.uuid,
  linkId: {
    ...field.textOrNull('The id of the link. Null for a payment session without a link.'),
    format: 'uuid',
  },
  sessionId: {
    ...field.textOrNull('The id of the payment session that the purchase paid. Null for a call of a link.'),
    format: 'uuid',
  },
  status: { enum: ['settled', 'delivered', 'refund_due', 'refunded', 'reorged'] },
  amount: field.text('The amount that the buyer was charged.'),
  authorizedAmount: field.text(
    'The amount that the buyer had authorized. It is more than amount only if the call was charged by its use.',
  ),
  fee: field.text("The operator's fee, which is part of the amount."),
  currency: field.text(),
  price: field.text('The price of the link in USDC at the time of the purchase.'),
  chain: { enum: ['base', 'solana'] },
  network: field.text('CAIP-2.'),
  asset: field.text(),
  buyerWallet: field.text(),
  txHash: field.text(),
  explorerUrl: field.textOrNull(),
  createdAt: field.time,
})

export const toPurchaseView = (purchase: Purchase) => ({
  id: purchase.id,
  linkId: purchase.linkId,
  sessionId: purchase.sessionId,
  status: purchase.status,
  amount: formatAmount(purchase.amountAtomic, purchase.decimals, 2),
  authorizedAmount: formatAmount(purchase.authorizedAtomic, purchase.decimals, 2),
  fee: formatAmount(purchase.feeAtomic, purchase.decimals, 2),
  currency: purchase.symbol,
  price: purchase.priceUsd,
  chain: chainNameOf(purchase.network),
  network: purchase.network,
  asset: purchase.asset,
  buyerWallet: purchase.buyerWallet,
  txHash: purchase.txHash ?? '',
  explorerUrl: purchase.txHash === null ? null : (explorerUrl(purchase.network, purchase.txHash) ?? null),
  createdAt: isoTime(purchase.createdAtMs),
})

type PurchaseView = ReturnType<typeof toPurchaseView>

/** Like {@link purchaseSchema}, with the seller's title of the sold link or session. */
export const titledPurchaseSchema = exactly({
  ...purchaseSchema.properties,
  linkTitle: field.textOrNull('The current title of the link, also if it was deleted.'),
})

/** Purchases in the form of {@link titledPurchaseSchema}, in their order. */
export async function toTitledViews(links: Pick<Links, 'titlesOf'>, purchases: readonly Purchase[]) {
  const titles = await links.titlesOf([...new Set(purchases.flatMap(({ linkId }) => linkId ?? []))])
  return purchases.map((purchase) => {
    const linkTitle = (purchase.linkId && titles.get(purchase.linkId)) ?? null
    return { ...toPurchaseView(purchase), linkTitle }
  })
}

const pageQuery = {
  type: 'object',
  properties: {
    ...paging.query.properties,
    linkId: { type: 'string', description: 'List only purchases of this link.' },
    status: { type: 'string', enum: unusualStatuses, description: 'List only purchases in this state.' },
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
  'authorizedAmount',
] as const satisfies readonly (keyof PurchaseView)[]

/** `/api/v1/purchases`: the purchases of the caller's store. */
export function purchaseRoutes(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: Infer<typeof pageQuery> }>(
    '/api/v1/purchases',
    {
      schema: {
        summary: 'List the purchases',
        description:
          'Lists the purchases, newest first. With Accept: text/csv, the response is a table, and the Link header has the address of the next page.',
        querystring: pageQuery,
        response: respond(
          {
            200: success(
              exactly({
                purchases: listOf(titledPurchaseSchema),
                nextCursor: paging.next,
              }),
            ),
          },
          [400, 401, 404, 429],
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
        response: respond({ 200: success(titledPurchaseSchema) }, [401, 404, 429]),
      },
    },
    async (request) => {
      const [purchase] = await toTitledViews(api.links, [await ownPurchase(api, request, request.params.id)])
      return ok(purchase)
    },
  )
}

const none = {
  type: 'object',
  description: 'Not used, because this service holds no money of its stores.',
}

/**
 * `/api/v1/withdrawals` returns the same error for both methods. Buyers pay a store's own wallets, so there is no balance to
 * withdraw and no list of withdrawals.
 */
export function withdrawalRoutes(app: FastifyInstance): void {
  const route = (method: 'GET' | 'POST', summary: string) =>
    app.route({
      method,
      url: '/api/v1/withdrawals',
      schema: {
        summary,
        description:
          'Responds with 409 WITHDRAWALS_NOT_AVAILABLE, because buyers pay the wallets of the store directly.',
        response: respond({ 200: none }, [401, 409, 429]),
      },
      handler: async () => {
        throw new TollgateError(
          'WITHDRAWALS_NOT_AVAILABLE',
          'Your store has no balance to withdraw, because buyers pay the wallets of your store directly. GET /api/v1/profile shows these wallets in payout, and GET /api/v1/purchases shows what they received.',
        )
      },
    })
  route('GET', 'List withdrawals')
  route('POST', 'Withdraw')
}
