import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ChainName, chainNameOf } from '../../core/domain/network.ts'
import { ratingOf } from '../../core/domain/review.ts'
import { type DiscoveryQuery, type FoundLink, wordsOf } from '../../core/ports/store/discovery.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, MINUTE_MS } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import {
  type Answer,
  exactly,
  field,
  listOf,
  type ResponseCache,
  respond,
  sendCached,
} from '../http/responses.ts'
import { validationError } from '../http/validation.ts'
import { currency } from '../links/linkBodies.ts'
import { accessView } from '../links/linkView.ts'
import { addressOf } from './listedLinks.ts'

/** A minimum or maximum price. */
export const price = {
  type: 'string',
  pattern: '^\\d+(\\.\\d{1,18})?$',
  maxLength: 64,
  'x-hint': 'a decimal string such as 0.10',
} as const

/** Maximum number of links of a page (marketplace interface, section 4). */
const MAX_LIMIT = 100

/** Page parameters of every list of links. */
export const pageParameters = {
  limit: {
    type: 'integer',
    minimum: 1,
    default: 20,
    description: `A page has at most ${MAX_LIMIT} links. Larger values count as ${MAX_LIMIT}.`,
  },
  offset: { type: 'integer', minimum: 0, default: 0 },
} as const

const discoverQuery = {
  type: 'object',
  properties: {
    q: {
      type: 'string',
      maxLength: 200,
      description:
        'Words to search in title, description, tags and seller. The beginning of a word is enough.',
    },
    type: { type: 'string', enum: ['api', 'standard'] },
    minPrice: { ...price, description: 'USDC.' },
    maxPrice: { ...price, description: 'USDC.' },
    sort: {
      type: 'string',
      enum: ['popular', 'newest', 'price_asc', 'price_desc'],
      description:
        'The order of the links. Default: by relevance if the request has q, otherwise by popularity.',
    },
    ...pageParameters,
    network: {
      type: 'string',
      maxLength: 64,
      description: 'List only links that buyers can pay on this network: base, solana or a CAIP-2 id.',
    },
    tag: { type: 'string', maxLength: 32 },
    seller: {
      type: 'string',
      maxLength: 32,
      description: 'List only links of the store with this username.',
    },
    free: { type: 'string', enum: ['true', 'false'] },
    minRating: {
      type: 'integer',
      minimum: 0,
      maximum: 100,
      description: 'The percentage of positive reviews.',
    },
  },
} as const

type DiscoverQuery = Infer<typeof discoverQuery>

/** The address at which a link is called. */
export const addressFields = {
  endpoint: field.text('The path of the link on this service: `/api/link/<username>/<slug>`.'),
  url: field.text('The full URL of the link.'),
}

/** A field of a link whose price depends on the request. */
export const priceMaxField = field.text(
  'The highest price in USDC. Only if the price depends on the request.',
)

const everyLink = exactly({
  id: field.uuid,
  title: field.text(),
  description: field.text(),
  ...addressFields,
  price: field.text('The price in USDC. If the price depends on the request, the lowest price.'),
  currency: { const: currency },
  type: { enum: ['api', 'standard'] },
  seller: exactly({ username: field.text(), displayName: field.text() }),
  stats: exactly({
    buyers: { ...field.count, description: 'The number of different wallets that bought calls of the link.' },
    reviews: field.count,
    rating: {
      ...field.countOrNull,
      description: 'The percentage of positive reviews. Null if there are no reviews.',
    },
  }),
})

/** A field of a link that wallets can call by a signature. */
export const accessField = {
  ...accessView,
  description:
    'Who can call the link by a signature instead of a payment: signed-in, or {"paidFor":"24h"} for wallets that have paid. Omitted if no wallet can.',
}

const foundLink = {
  ...everyLink,
  properties: { ...everyLink.properties, priceMax: priceMaxField, access: accessField },
}

const found = exactly({
  results: listOf(foundLink),
  pagination: exactly({ total: field.count, limit: field.count, offset: field.count, hasMore: field.flag }),
  meta: exactly({ responseTime: field.text('How long the search took, such as "3ms".') }),
})

/** `GET /api/discover` is the marketplace. It has no envelope (marketplace interface, section 4). */
export function discoverRoute(app: FastifyInstance, api: Api, cache: ResponseCache): void {
  app.get<{ Querystring: DiscoverQuery }>(
    '/api/discover',
    {
      config: { anyOrigin: true },
      onRequest: limitPerClient(api, 'discover', api.limits.discoverPerMinute, MINUTE_MS),
      preValidation: lenientQuery,
      schema: {
        summary: 'Find links',
        description:
          'Lists public links that are not suspended. Responses are cached for 60 seconds. Popularity is ln(1 + payers in 30 days) times uptime times rating, halved for every week without a sale.',
        querystring: discoverQuery,
        response: respond({ 200: found }, [400, 429]),
      },
    },
    async (request, reply) => {
      const startedAt = performance.now()
      const query = toQuery(api, request.query)
      const response = await cache.of(`discover ${JSON.stringify(query)}`, () => find(api, query))
      const ms = Math.max(1, Math.round(performance.now() - startedAt))
      const tail = `,"meta":{"responseTime":"${ms}ms"}}`
      return sendCached(request, reply, response, 'application/json; charset=utf-8', tail)
    },
  )
}

/**
 * Drops empty fields, because forms send them. Also limits the page size, because AgentKit requests pages of a thousand from every
 * service.
 */
export async function lenientQuery(request: FastifyRequest): Promise<void> {
  const query = request.query as Record<string, unknown>
  for (const [name, value] of Object.entries(query)) if (value === '') delete query[name]
  const limit = String(query['limit'])
  if (/^\d+$/.test(limit) && Number(limit) > MAX_LIMIT) query['limit'] = String(MAX_LIMIT)
}

/** The query in one form, without other parameters, so that equal queries share a response in the cache. */
function toQuery(api: Api, query: DiscoverQuery): DiscoveryQuery {
  const { q, type, minPrice, maxPrice, sort, network, tag, seller, free, minRating } = query
  const words = q === undefined || q.trim() === '' ? undefined : wordsOf(q)
  return {
    ...(words && { words }),
    ...(type && { linkType: type }),
    ...(minPrice && { minPrice }),
    ...(maxPrice && { maxPrice }),
    ...(network && { chain: chainOf(api, network) }),
    ...(tag && { tag }),
    ...(seller && { username: seller }),
    ...(free && { isFree: free === 'true' }),
    ...(minRating !== undefined && { minRating }),
    sort: sort ?? (words === undefined ? 'popular' : 'relevance'),
    limit: query.limit,
    offset: query.offset,
  }
}

/** @throws `VALIDATION_ERROR` for a network on which no payment is possible */
export function chainOf({ assets }: Api, network: string): ChainName {
  if (network === 'base' || network === 'solana') return network
  const known = [...new Set(assets.map((asset) => asset.network))]
  if (known.some((id) => id === network)) return chainNameOf(network)
  const message = `Expected base, solana or one of ${known.join(', ')}.`
  throw validationError([{ path: 'network', code: 'not_allowed', message }])
}

async function find(api: Api, query: DiscoveryQuery): Promise<Answer> {
  const { links, total } = await api.discovery.search(query)
  const { limit, offset } = query
  const pagination = { total, limit, offset, hasMore: offset + links.length < total && links.length > 0 }
  const results = links.map((link) => toResult(api, link))
  const whole = JSON.stringify({ results, pagination })
  return {
    // The body has no closing brace, because each request appends the response time.
    body: whole.slice(0, -1),
    addresses: links.map(addressOf),
  }
}

type Named = Pick<FoundLink, 'username' | 'slug'>

export const endpointOf = ({ username, slug }: Named): string => `/api/link/${username}/${slug}`

export const urlOf = ({ publicUrl }: Pick<Api, 'publicUrl'>, link: Named): string =>
  publicUrl + endpointOf(link)

const toResult = (api: Api, link: FoundLink) => ({
  id: link.id,
  title: link.title,
  description: link.description,
  endpoint: endpointOf(link),
  url: urlOf(api, link),
  price: link.price,
  ...(link.priceMax !== null && { priceMax: link.priceMax }),
  ...(link.access !== null && { access: link.access }),
  currency,
  type: link.linkType,
  seller: { username: link.username, displayName: link.displayName },
  stats: { buyers: link.buyers, reviews: link.reviews.total, rating: ratingOf(link.reviews) },
})
