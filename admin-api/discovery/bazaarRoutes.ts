import type { FastifyInstance } from 'fastify'
import type { ServedLink } from '../../core/domain/link.ts'
import { type DiscoveryQuery, wordsOf } from '../../core/ports/store/discovery.ts'
import { bazaarOf } from '../../core/x402/bazaar.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/envelope.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { answers, count, exactly, flag, listOf, text, time } from '../schema/answers.ts'
import type { Infer } from '../schema/infer.ts'
import type { AnswerCache } from './answerCache.ts'
import { addressOf, describedLinks } from './described.ts'
import { chainOf, lenientQuery, pageParameters, price } from './discoverRoute.ts'
import { sendKept } from './sendKept.ts'

const type = { type: 'string', maxLength: 16, description: 'http; of other kinds there is none.' } as const

const listQuery = { type: 'object', properties: { type, ...pageParameters } } as const

const searchQuery = {
  type: 'object',
  properties: {
    query: { type: 'string', maxLength: 400 },
    type,
    network: { type: 'string', maxLength: 64, description: 'base, solana or a CAIP-2 id.' },
    maxUsdPrice: price,
    limit: pageParameters.limit,
  },
} as const

const resource = exactly({
  resource: text('The address that callers use.'),
  type: { const: 'http' },
  x402Version: { const: 2 },
  description: text(),
  accepts: listOf({ type: 'object', description: 'As in the 402.' }),
  lastUpdated: time,
  metadata: { type: 'object' },
  extensions: { type: 'object' },
})

const x402Version = { const: 2 }

/** The Bazaar's two questions (x402 v2, section 8; search as the public one answers it): paid links with their terms. */
export function bazaarRoutes(app: FastifyInstance, api: Api, cache: AnswerCache): void {
  const onRequest = limitPerClient(api, 'discover', api.limits.discoverPerMinute, minuteMs)
  const describing = { whole: (link: ServedLink) => JSON.stringify(toResource(api, link)) }
  app.get<{ Querystring: Infer<typeof listQuery> }>(
    '/discovery/resources',
    {
      config: { anyOrigin: true },
      onRequest,
      preValidation: lenientQuery,
      schema: {
        summary: 'List what is for sale',
        description: 'Paid public links in the form of the x402 Bazaar, newest first.',
        querystring: listQuery,
        response: answers(
          {
            200: exactly({
              x402Version,
              items: listOf(resource),
              pagination: exactly({ limit: count, offset: count, total: count }),
            }),
          },
          400,
          429,
        ),
      },
    },
    async (request, reply) => {
      const { limit = 20, offset = 0 } = request.query
      const query: DiscoveryQuery = { ...ofKind(request.query), sort: 'newest', limit, offset }
      const answer = await cache.of(`resources ${JSON.stringify(query)}`, async () => {
        const { texts, addresses, total } = await describedLinks(api, query, describing)
        const pagination = JSON.stringify({ limit, offset, total })
        return { body: `{"x402Version":2,"items":[${texts.join()}],"pagination":${pagination}}`, addresses }
      })
      return sendKept(request, reply, answer)
    },
  )

  app.get<{ Querystring: Infer<typeof searchQuery> }>(
    '/discovery/search',
    {
      config: { anyOrigin: true },
      onRequest,
      preValidation: lenientQuery,
      schema: {
        summary: 'Search what is for sale',
        description: 'Paid public links in the form of the x402 Bazaar, what fits the words best first.',
        querystring: searchQuery,
        response: answers(
          {
            200: exactly({
              x402Version,
              resources: listOf(resource),
              partialResults: { ...flag, description: 'There are more than limit.' },
              searchMethod: { const: 'text' },
            }),
          },
          400,
          429,
        ),
      },
    },
    async (request, reply) => {
      const { query: words, network, maxUsdPrice, limit = 20 } = request.query
      const query: DiscoveryQuery = {
        ...(words?.trim() && { words: wordsOf(words) }),
        ...(network && { chain: chainOf(api, network) }),
        ...(maxUsdPrice && { maxPrice: maxUsdPrice }),
        ...ofKind(request.query),
        ...{ sort: words?.trim() ? 'relevance' : 'popular', limit, offset: 0 },
      }
      const answer = await cache.of(`search ${JSON.stringify(query)}`, async () => {
        const { texts, addresses, total, found } = await describedLinks(api, query, describing)
        const rest = `"partialResults":${total > found},"searchMethod":"text"`
        return { body: `{"x402Version":2,"resources":[${texts.join()}],${rest}}`, addresses }
      })
      return sendKept(request, reply, answer)
    },
  )
}

/** Of another kind than http there is nothing to find. */
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
