import type { FastifyInstance } from 'fastify'
import type { ServedLink } from '../../core/domain/link.ts'
import { type DiscoveryQuery, wordsOf } from '../../core/ports/store/discovery.ts'
import { bazaarOf } from '../../core/x402/bazaar.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, MINUTE_MS } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import {
  exactly,
  field,
  isoTime,
  listOf,
  type ResponseCache,
  respond,
  sendCached,
} from '../http/responses.ts'
import { chainOf, lenientQuery, pageParameters, price } from './discoverRoute.ts'
import { addressOf, describedLinks } from './listedLinks.ts'

const type = {
  type: 'string',
  maxLength: 16,
  description: 'The type of resource. Only http has results.',
} as const

const listQuery = { type: 'object', properties: { type, ...pageParameters } } as const

const searchQuery = {
  type: 'object',
  properties: {
    query: { type: 'string', maxLength: 400 },
    type,
    network: {
      type: 'string',
      maxLength: 64,
      description: 'List only links that buyers can pay on this network: base, solana or a CAIP-2 id.',
    },
    maxUsdPrice: price,
    limit: pageParameters.limit,
  },
} as const

const resource = exactly({
  resource: field.text('The URL that callers use.'),
  type: { const: 'http' },
  x402Version: { const: 2 },
  description: field.text(),
  accepts: listOf({
    type: 'object',
    description:
      'The entries of accepts, as in the 402 of the link. If the price depends on the request, the amounts are those of the lowest price.',
  }),
  lastUpdated: field.time,
  metadata: { type: 'object' },
  extensions: { type: 'object' },
})

const x402Version = { const: 2 }

/**
 * The two Bazaar queries (x402 v2, section 8). They return paid links with their terms. The search responds like the public
 * Bazaar's.
 */
export function bazaarRoutes(app: FastifyInstance, api: Api, cache: ResponseCache): void {
  const onRequest = limitPerClient(api, 'discover', api.limits.discoverPerMinute, MINUTE_MS)
  const describing = { whole: (link: ServedLink) => JSON.stringify(toResource(api, link)) }
  app.get<{ Querystring: Infer<typeof listQuery> }>(
    '/discovery/resources',
    {
      config: { anyOrigin: true },
      onRequest,
      preValidation: lenientQuery,
      schema: {
        summary: 'List paid links',
        description: 'Lists paid public links in the format of the x402 Bazaar, newest first.',
        querystring: listQuery,
        response: respond(
          {
            200: exactly({
              x402Version,
              items: listOf(resource),
              pagination: exactly({ limit: field.count, offset: field.count, total: field.count }),
            }),
          },
          [400, 429],
        ),
      },
    },
    async (request, reply) => {
      const { limit, offset } = request.query
      const query: DiscoveryQuery = { ...ofKind(request.query), sort: 'newest', limit, offset }
      const response = await cache.of(`resources ${JSON.stringify(query)}`, async () => {
        const { texts, addresses, total } = await describedLinks(api, query, describing)
        const pagination = JSON.stringify({ limit, offset, total })
        return { body: `{"x402Version":2,"items":[${texts.join()}],"pagination":${pagination}}`, addresses }
      })
      return sendCached(request, reply, response)
    },
  )

  app.get<{ Querystring: Infer<typeof searchQuery> }>(
    '/discovery/search',
    {
      config: { anyOrigin: true },
      onRequest,
      preValidation: lenientQuery,
      schema: {
        summary: 'Search paid links',
        description: 'Searches paid public links in the format of the x402 Bazaar, best match first.',
        querystring: searchQuery,
        response: respond(
          {
            200: exactly({
              x402Version,
              resources: listOf(resource),
              partialResults: { ...field.flag, description: 'True if there are more results than `limit`.' },
              searchMethod: { const: 'text' },
            }),
          },
          [400, 429],
        ),
      },
    },
    async (request, reply) => {
      const { query: words, network, maxUsdPrice, limit } = request.query
      const query: DiscoveryQuery = {
        ...(words?.trim() && { words: wordsOf(words) }),
        ...(network && { chain: chainOf(api, network) }),
        ...(maxUsdPrice && { maxPrice: maxUsdPrice }),
        ...ofKind(request.query),
        sort: words?.trim() ? 'relevance' : 'popular',
        limit,
        offset: 0,
      }
      const response = await cache.of(`search ${JSON.stringify(query)}`, async () => {
        const { texts, addresses, total, found } = await describedLinks(api, query, describing)
        const rest = `"partialResults":${total > found},"searchMethod":"text"`
        return { body: `{"x402Version":2,"resources":[${texts.join()}],${rest}}`, addresses }
      })
      return sendCached(request, reply, response)
    },
  )
}

/** The filter by type. Types other than `http` have no results. */
const ofKind = ({ type: kind }: { readonly type?: string }): Partial<DiscoveryQuery> =>
  kind === undefined || kind === 'http' ? { isFree: false } : { isFree: false, words: [] }

const toResource = (api: Api, link: ServedLink) => ({
  resource: `${api.publicUrl}/api/link/${addressOf(link)}`,
  type: 'http',
  x402Version: 2,
  description: link.description === '' ? link.title : link.description,
  accepts: api.termsOf(link),
  lastUpdated: isoTime(link.updatedAtMs),
  metadata: {
    name: link.title,
    description: link.description === '' ? link.title : link.description,
    provider: link.username,
    ...(link.tags.length > 0 && { tags: link.tags }),
    ...(link.iconUrl !== null && { iconUrl: link.iconUrl }),
  },
  extensions: { bazaar: bazaarOf(link) },
})
