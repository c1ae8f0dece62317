import type { FastifyInstance } from 'fastify'
import { isPaid, type ServedLink } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { FoundLink } from '../../core/ports/discovery.ts'
import { movedTo, shownMethod, takesBody } from '../../core/x402/bazaar.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { findStore } from '../stores/storeRoute.ts'
import type { AnswerCache } from './answerCache.ts'
import { addressOf, describedLinks } from './described.ts'
import { endpointOf } from './discoverRoute.ts'
import { sendKept } from './sendKept.ts'

/** As many as a store has by default. */
const MAX_LINKS = 1_000

/** A document that has this many characters names the links that come then, and says no more of them. */
const WHOLE_CHARS = 1_000_000

/** `/{username}/openapi.json`: a store's public links, as its buyers' tools read an API. */
export function storeOpenApiRoute(app: FastifyInstance, api: Api, cache: AnswerCache): void {
  app.get<{ Params: { username: string } }>(
    '/:username/openapi.json',
    {
      config: { anyOrigin: true, answers404: true },
      schema: { hide: true },
      onRequest: limitPerClient(api, 'discover', api.limits.discoverPerMinute, minuteMs),
    },
    async (request, reply) => {
      const { username } = request.params
      const store = await findStore(api, username)
      if (store === undefined) throw new TollgateError('NOT_FOUND', 'There is no store with this username.')
      if (store.username !== username) return reply.redirect(`/${store.username}/openapi.json`, 307)
      const answer = await cache.of(`openapi ${username}`, async () => {
        const query = { sort: 'newest', username, limit: MAX_LINKS, offset: 0 } as const
        const { texts, addresses } = await describedLinks(api, query, {
          whole: (link) => pathOf(link, Object.fromEntries(operationsOf(api, link))),
          brief: (link) => pathOf(link, briefOf(api, link)),
          wholeChars: WHOLE_CHARS,
        })
        const head = JSON.stringify(headOf(api, store)).slice(0, -1)
        return {
          body: `${head},"paths":{${texts.join()}}}`,
          // The store itself stands in it, too: its name may change while it has no links.
          addresses: [...addresses, `${username}/`],
        }
      })
      return sendKept(request, reply, answer)
    },
  )
}

const headOf = (api: Api, { username, displayName, bio }: Store) => ({
  openapi: '3.1.0',
  info: {
    title: `${displayName} on ${api.serviceName}`,
    version: '1',
    description:
      bio === '' ? `APIs of ${displayName}. Paid ones answer 402 with the terms of x402 first.` : bio,
  },
  servers: [{ url: api.publicUrl }],
  externalDocs: { url: `${api.publicUrl}/${username}` },
})

const pathOf = (link: Pick<ServedLink, 'username' | 'slug'>, item: object): string =>
  `${JSON.stringify(`/api/link/${addressOf(link)}`)}:${JSON.stringify(item)}`

const briefOf = (api: Api, { title, price, ...link }: FoundLink) => ({
  summary: title,
  description: `${isPaid({ price }) ? `${price} USDC a call` : 'Free'}. This store has too many links to describe them all here: ${api.publicUrl}/discovery/resources has the terms and the input of paid ones, and so has the 402 of ${endpointOf(api, link)}.`,
})

function operationsOf(api: Api, link: ServedLink): [method: string, operation: object][] {
  const methods = link.methods.length === 0 ? [shownMethod(link)] : link.methods
  return methods.map((method) => [method.toLowerCase(), operationOf(api, link, method)])
}

const operationOf = (api: Api, link: ServedLink, method: string) => ({
  operationId: `${link.slug}-${method.toLowerCase()}`,
  summary: link.title,
  ...(link.description !== '' && { description: link.description }),
  ...(link.tags.length > 0 && { tags: link.tags }),
  ...inputOf(link, method),
  ...(isPaid(link) && {
    'x-payment-info': {
      price: { mode: 'fixed', currency: 'USD', amount: link.price },
      protocols: ['x402'],
      accepts: api.termsOf(link),
    },
  }),
  responses: {
    200: {
      description: isPaid(link) ? "The seller's answer, and the purchase beside it." : "The seller's answer.",
      ...(link.outputExample !== null && {
        content: { 'application/json': { example: answerOf(link) } },
      }),
    },
    ...(isPaid(link) && { 402: { description: 'Payment required: terms in the header PAYMENT-REQUIRED.' } }),
  },
})

/** As a buyer gets it: wrapped, where it is. The names of the purchase's fields are in the paid answer itself. */
const answerOf = ({ outputExample, responseMode, ...link }: ServedLink) =>
  isPaid(link) && responseMode === 'wrap' ? { data: outputExample } : outputExample

function inputOf({ inputSchema, ...link }: ServedLink, method: string): object {
  if (typeof inputSchema !== 'object' || inputSchema === null) return {}
  if (takesBody(method)) {
    const path = `/api/link/${addressOf(link)}`.replaceAll('/', '~1')
    const place = `/paths/${path}/${method.toLowerCase()}/requestBody/content/application~1json/schema`
    const schema = movedTo(place, inputSchema as Readonly<Record<string, unknown>>)
    return { requestBody: { required: true, content: { 'application/json': { schema } } } }
  }
  const { properties, required } = inputSchema as { properties?: unknown; required?: unknown }
  if (typeof properties !== 'object' || properties === null) return {}
  const needed = Array.isArray(required) ? required : []
  const parameters = Object.entries(properties).map(([name, schema]) => ({
    ...{ name, in: 'query', required: needed.includes(name) },
    // What it refers to does not stand in a list of parameters.
    schema: JSON.stringify(schema).includes('"$ref":"#') ? {} : schema,
  }))
  return { parameters }
}
