import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ChainName, chainNameOf } from '../../core/domain/network.ts'
import { ratingOf } from '../../core/domain/review.ts'
import { type DiscoveryQuery, type FoundLink, wordsOf } from '../../core/ports/store/discovery.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { currency } from '../links/linkBodies.ts'
import { answers, count, countOrNull, exactly, flag, listOf, text, uuid } from '../schema/answers.ts'
import type { Infer } from '../schema/infer.ts'
import { validationError } from '../schema/validationError.ts'
import type { Answer, AnswerCache } from './answerCache.ts'
import { addressOf } from './described.ts'
import { sendKept } from './sendKept.ts'

/** A bound of what something costs. */
export const price = {
  type: 'string',
  pattern: '^\\d+(\\.\\d{1,18})?$',
  maxLength: 64,
  'x-hint': 'a decimal string such as 0.10',
} as const

/** Most links of a page (marketplace interface, section 4). */
const MAX_LIMIT = 100

/** Page parameters of everything that lists links. */
export const pageParameters = {
  limit: {
    type: 'integer',
    minimum: 1,
    default: 20,
    description: `A page has at most ${MAX_LIMIT}, whatever is asked for.`,
  },
  offset: { type: 'integer', minimum: 0, default: 0 },
} as const

const discoverQuery = {
  type: 'object',
  properties: {
    q: {
      type: 'string',
      maxLength: 200,
      description: 'Words of title, description, tags or seller; each may be the beginning of one.',
    },
    type: { type: 'string', enum: ['api', 'standard'] },
    minPrice: { ...price, description: 'USDC.' },
    maxPrice: { ...price, description: 'USDC.' },
    sort: {
      type: 'string',
      enum: ['popular', 'newest', 'price_asc', 'price_desc'],
      description: 'Left out: by relevance where q is given, popular otherwise.',
    },
    ...pageParameters,
    network: {
      type: 'string',
      maxLength: 64,
      description: 'base, solana or a CAIP-2 id: links that can be paid there.',
    },
    tag: { type: 'string', maxLength: 32 },
    seller: { type: 'string', maxLength: 32, description: 'A username.' },
    free: { type: 'string', enum: ['true', 'false'] },
    minRating: { type: 'integer', minimum: 0, maximum: 100, description: 'Percentage of positive reviews.' },
  },
} as const

type DiscoverQuery = Infer<typeof discoverQuery>

/** Where a link is called. */
export const addressFields = {
  endpoint: text(
    'The path that callers use, below the address of this service: `/api/link/<username>/<slug>`.',
  ),
  url: text('The whole address that callers use.'),
}

const foundLink = exactly({
  id: uuid,
  title: text(),
  description: text(),
  ...addressFields,
  price: text('USDC.'),
  currency: { const: currency },
  type: { enum: ['api', 'standard'] },
  seller: exactly({ username: text(), displayName: text() }),
  stats: exactly({
    buyers: { ...count, description: 'Different wallets that bought.' },
    reviews: count,
    rating: { ...countOrNull, description: 'Percentage of positive reviews; null without any.' },
  }),
})

const found = exactly({
  results: listOf(foundLink),
  pagination: exactly({ total: count, limit: count, offset: count, hasMore: flag }),
  meta: exactly({ responseTime: text('Such as "3ms".') }),
})

/** `GET /api/discover`: the marketplace. No envelope (marketplace interface, section 4). */
export function discoverRoute(app: FastifyInstance, api: Api, cache: AnswerCache): void {
  app.get<{ Querystring: DiscoverQuery }>(
    '/api/discover',
    {
      config: { anyOrigin: true },
      onRequest: limitPerClient(api, 'discover', api.limits.discoverPerMinute, minuteMs),
      preValidation: lenientQuery,
      schema: {
        summary: 'Find links',
        description:
          'Public links that work. Answers are kept for 60 s. Popular is ln(1 + payers of 30 days), halved by every week without a sale, times uptime, times rating.',
        querystring: discoverQuery,
        response: answers({ 200: found }, 400, 429),
      },
    },
    async (request, reply) => {
      const startedAt = performance.now()
      const query = toQuery(api, request.query)
      const answer = await cache.of(`discover ${JSON.stringify(query)}`, () => find(api, query))
      const ms = Math.max(1, Math.round(performance.now() - startedAt))
      const tail = `,"meta":{"responseTime":"${ms}ms"}}`
      return sendKept(request, reply, answer, 'application/json; charset=utf-8', tail)
    },
  )
}

/** Forms send their empty fields too, and AgentKit asks every service for pages of a thousand. */
export async function lenientQuery(request: FastifyRequest): Promise<void> {
  const query = request.query as Record<string, unknown>
  for (const [name, value] of Object.entries(query)) if (value === '') delete query[name]
  const limit = String(query['limit'])
  if (/^\d+$/.test(limit) && Number(limit) > MAX_LIMIT) query['limit'] = String(MAX_LIMIT)
}

/** What is asked for in one form, whatever else stands in the address: the same question has one answer in the cache. */
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
    limit: query.limit!,
    offset: query.offset!,
  }
}

/** @throws `VALIDATION_ERROR` for a network that nothing can be paid on */
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
    // Without the brace: the time that it took is written behind it each time.
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
  currency,
  type: link.linkType,
  seller: { username: link.username, displayName: link.displayName },
  stats: { buyers: link.buyers, reviews: link.reviews.total, rating: ratingOf(link.reviews) },
})
