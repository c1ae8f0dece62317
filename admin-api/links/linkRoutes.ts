import type { FastifyInstance } from 'fastify'
import { isPaid, type Link, linkStates, type StoreId } from '../../core/domain/link.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { ratingOf } from '../../core/domain/review.ts'
import { answeredCalls } from '../../core/domain/uptime.ts'
import { secretText } from '../../core/http/signature.ts'
import type { LinkStats } from '../../core/ports/store/stats.ts'
import { priceKeyOf } from '../../core/pricing/priceSecret.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { type IdParams, idParams, ownActiveLink, ownLink } from '../http/ownership.ts'
import { exactly, field, isoTime, listOf, nextLink, ok, paging, respond, success } from '../http/responses.ts'
import { secretOf } from '../webhooks/signWebhook.ts'
import { healthOf, healthSchema, monthBefore, uptimeIn, uptimeSchema } from './healthHistory.ts'
import {
  type CreateLinkBody,
  createLinkBody,
  currency,
  type UpdateLinkBody,
  updateLinkBody,
} from './linkBodies.ts'
import {
  accessView,
  linkFields,
  priceRangeFields,
  priceSecretSchema,
  priceView,
  rangeOf,
  toLinkView,
  webhookSecretSchema,
} from './linkView.ts'
import { announceLink, createLinkOnce, priceUrlOf, updateLink } from './saveLink.ts'
import { REVENUE_PLACES } from './stats.ts'

/** Statistics of a link, for its seller. */
const linkStatsSchema = exactly(
  {
    purchases: {
      ...field.count,
      description:
        'The number of paid calls and paid payment sessions, without purchases that were refunded or that left the chain.',
    },
    calls: {
      ...field.count,
      description:
        'The number of free and paid calls to which the API of the link responded in time and without a 5xx status.',
    },
    buyers: field.count,
    revenue: field.text('USDC.'),
    uptime: uptimeSchema,
    reviews: { ...field.count, description: 'Reviews and rating cover all time.' },
    rating: { type: ['integer', 'null'], description: 'The percentage of positive reviews.' },
  },
  "Statistics of the last 30 days (UTC, including today). Purchases, buyers and revenue leave out the store's own wallets.",
)

/**
 * Reads the statistics of several links of a store at once.
 *
 * @returns a function from a link's id to its statistics
 */
async function readLinkStats(api: Api, storeId: StoreId, linkIds: readonly string[]) {
  const nowMs = api.clock.now()
  const fromMs = monthBefore(nowMs)
  const found = await api.stats.ofLinks(storeId, linkIds, fromMs)
  const statsOf = new Map(found.map((stats) => [stats.linkId, stats]))
  return (link: Link) => {
    const { purchases, buyers, revenueE18, reviews, health } = statsOf.get(link.id) ?? nothing
    return {
      purchases,
      calls: answeredCalls(health.checks),
      buyers,
      revenue: formatAmount(revenueE18, REVENUE_PLACES, REVENUE_PLACES),
      uptime: uptimeIn(link, health.checks, health.changes, fromMs, nowMs),
      reviews: reviews.total,
      rating: ratingOf(reviews),
    }
  }
}

const nothing: Omit<LinkStats, 'linkId'> = {
  purchases: 0,
  buyers: 0,
  revenueE18: 0n,
  reviews: { total: 0, positive: 0 },
  health: { checks: { probes: 0, failedProbes: 0, calls: 0, failedCalls: 0 }, changes: [] },
}

/** The fields of a link. The fields of {@link priceRangeFields} are optional, because only some links have them. */
const linkOf = (more: Parameters<typeof exactly>[0]) => {
  const whole = exactly({ ...linkFields, ...more })
  return { ...whole, properties: { ...whole.properties, ...priceRangeFields } }
}
const listed = linkOf({ stats: linkStatsSchema })
const single = linkOf({ health: healthSchema, stats: linkStatsSchema })
const changed = {
  ...single,
  properties: {
    ...single.properties,
    priceSecret: priceSecretSchema,
    webhookSecret: webhookSecretSchema,
  },
}

/** Maximum number of links of a page, which is also the default. Schemas and examples of links are long. */
const MAX_PER_PAGE = 100
const MAX_WORDS = 16

const pageQuery = {
  type: 'object',
  properties: {
    limit: {
      type: 'integer',
      minimum: 1,
      maximum: MAX_PER_PAGE,
      description: `The number of links of a page. Default: ${MAX_PER_PAGE}. If a request has \`limit\` or \`cursor\`, the response has \`nextCursor\`.`,
    },
    cursor: paging.cursor,
    q: {
      type: 'string',
      maxLength: 200,
      description: 'List only links that have each of these words in their title, slug, url or tags.',
    },
    state: {
      enum: linkStates,
      description: 'List only links in this state. A suspended link has only the state suspended.',
    },
  },
} as const

const page = exactly({ links: listOf(listed) })
const pageSchema = {
  ...page,
  properties: {
    ...page.properties,
    nextCursor: field.textOrNull(
      'The `cursor` of the next page. Null on the last page. Omitted if the request had neither `limit` nor `cursor`.',
    ),
  },
}

/** `/api/v1/links` are the caller's links. */
export function linkRoutes(app: FastifyInstance, api: Api): void {
  const createOnce = createLinkOnce(api)
  async function whole(link: Link) {
    const [health, statsOf] = await Promise.all([
      healthOf(api, link),
      readLinkStats(api, link.storeId, [link.id]),
    ])
    return ok({ ...toLinkView(link), health, stats: statsOf(link) })
  }

  app.get<{ Querystring: Infer<typeof pageQuery> }>(
    '/api/v1/links',
    {
      schema: {
        summary: 'List the links',
        description: `Lists the links that are not deleted, newest first, at most ${MAX_PER_PAGE} per page. The Link header has the address of the next page.`,
        querystring: pageQuery,
        response: respond({ 200: success(pageSchema) }, [400, 401, 429]),
      },
    },
    async (request, reply) => {
      const { id } = callerOf(request).store
      const { limit, cursor, q = '', state } = request.query
      const { links, nextCursor } = await api.links.page(id, {
        limit: limit ?? MAX_PER_PAGE,
        words: q.split(/\s+/).filter(Boolean).slice(0, MAX_WORDS),
        ...(cursor !== undefined && { cursor }),
        ...(state !== undefined && { state }),
      })
      const ids = links.map((link) => link.id)
      const statsOf = await readLinkStats(api, id, ids)
      if (nextCursor !== null) {
        const next = { cursor: nextCursor, limit, q: q || undefined, state }
        reply.header('link', nextLink(api, '/api/v1/links', next))
      }
      const shown = links.map((link) => ({ ...toLinkView(link), stats: statsOf(link) }))
      const isPaged = limit !== undefined || cursor !== undefined
      return ok({ links: shown, ...(isPaged && { nextCursor }) })
    },
  )

  app.post<{ Body: CreateLinkBody }>(
    '/api/v1/links',
    {
      schema: {
        summary: 'Create a link',
        description:
          'Creates a link, through which buyers call your API. The API of a paid link must pass a health check first. If you send the same request again within a minute, the response is the same link.',
        body: createLinkBody,
        response: respond({ 201: success(createdLinkSchema) }, [400, 401, 409, 422, 429]),
      },
    },
    async (request, reply) => {
      const { store } = callerOf(request)
      const link = await createOnce(store, request.body)
      const warnings = isPaid(link) ? await api.payoutFaults(store.payout, link) : []
      const more = { warnings, ...priceSecret(api, link), ...(await webhookSecret(api, link)) }
      return reply.code(201).send(ok(toCreatedLink(link, api.publicUrl, store.username, more)))
    },
  )

  app.get<{ Params: IdParams }>(
    '/api/v1/links/:id',
    {
      schema: {
        summary: 'Read a link',
        params: idParams,
        response: respond({ 200: success(single) }, [401, 404, 429]),
      },
    },
    async (request) => whole(await ownLink(api, request, request.params.id)),
  )

  app.patch<{ Params: IdParams; Body: UpdateLinkBody }>(
    '/api/v1/links/:id',
    {
      schema: {
        summary: 'Change a link',
        description:
          'Changes the fields that the request contains. null removes the value of an optional field. The last ten former slugs redirect to the link for 30 days.',
        params: idParams,
        body: updateLinkBody,
        response: respond({ 200: success(changed) }, [400, 401, 404, 409, 422, 429]),
      },
    },
    async (request) => {
      const link = await ownActiveLink(api, request, request.params.id)
      const updated = await updateLink(api, callerOf(request).store, link, request.body)
      const { success, data } = await whole(updated)
      const isNew = link.webhookUrl === null && updated.webhookUrl !== null
      const secrets = {
        ...(request.body.price !== undefined && priceSecret(api, updated)),
        ...(isNew && (await webhookSecret(api, updated))),
      }
      return { success, data: { ...data, ...secrets } }
    },
  )

  app.delete<{ Params: IdParams }>(
    '/api/v1/links/:id',
    {
      schema: {
        summary: 'Delete a link',
        description:
          'Deletes a link. Its slug can be used again, and its purchases stay in the ledger. If you send the request again, the response is the same.',
        params: idParams,
        response: respond({ 200: exactly({ success: { const: true } }) }, [401, 404, 429]),
      },
    },
    async (request) => {
      const link = await ownLink(api, request, request.params.id)
      await api.links.deactivate(link.id, api.clock.now())
      announceLink(api, callerOf(request).store.username, link)
      return { success: true }
    },
  )
}

/** The secret that signs requests to the server that states a link's prices. Empty if the link has no such server. */
const priceSecret = ({ sealer }: Pick<Api, 'sealer'>, { id, pricing }: Link): { priceSecret?: string } =>
  priceUrlOf(pricing) === undefined ? {} : { priceSecret: secretText(priceKeyOf(sealer, id)) }

/** The signing secret of a link's `webhookUrl`. Empty if the link has none. */
async function webhookSecret(api: Api, { id, webhookUrl }: Link): Promise<{ webhookSecret?: string }> {
  const endpoint = webhookUrl === null ? undefined : await api.webhooks.find(id)
  return endpoint === undefined ? {} : { webhookSecret: secretOf(api.sealer, id, endpoint.salt) }
}

const created = exactly({
  id: field.uuid,
  slug: field.text(),
  fullUrl: field.text('The URL that callers use.'),
  privateSlug: field.textOrNull('Null unless the link is stealth.'),
  privateUrl: field.textOrNull('The only URL at which buyers can call a stealth link. Null for other links.'),
  price: priceView,
  currency: { const: currency },
  linkType: { enum: ['api', 'standard'] },
  createdAt: field.time,
})

/** The response to the creation of a link (marketplace interface, section 2). */
export const createdLinkSchema = {
  ...created,
  properties: {
    ...created.properties,
    ...priceRangeFields,
    access: accessView,
    warnings: listOf(
      field.text('Why some buyers cannot pay, and what to do. Omitted if all buyers can pay.'),
    ),
    priceSecret: priceSecretSchema,
    webhookSecret: webhookSecretSchema,
  },
}

export function toCreatedLink(
  link: Link,
  publicUrl: string,
  username: string,
  {
    warnings,
    priceSecret,
    webhookSecret,
  }: {
    readonly warnings: readonly string[]
    readonly priceSecret?: string
    readonly webhookSecret?: string
  },
) {
  const at = (slug: string) => `${publicUrl}/api/link/${username}/${slug}`
  return {
    id: link.id,
    slug: link.slug,
    fullUrl: at(link.privateSlug ?? link.slug),
    privateSlug: link.privateSlug,
    privateUrl: link.privateSlug === null ? null : at(link.privateSlug),
    price: link.pricing ?? link.price,
    ...rangeOf(link),
    currency,
    linkType: link.linkType,
    createdAt: isoTime(link.createdAtMs),
    ...(link.access !== null && { access: link.access }),
    ...(warnings.length > 0 && { warnings }),
    ...(priceSecret !== undefined && { priceSecret }),
    ...(webhookSecret !== undefined && { webhookSecret }),
  }
}
