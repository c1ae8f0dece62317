import type { FastifyInstance } from 'fastify'
import { isPaid, type ServedLink } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { FoundLink } from '../../core/ports/store/discovery.ts'
import { movedTo, shownMethod, takesBody } from '../../core/x402/bazaar.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { findStore } from '../stores/storeRoute.ts'
import type { AnswerCache } from './answerCache.ts'
import { addressOf, describedLinks } from './described.ts'
import { urlOf } from './discoverRoute.ts'
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
          whole: (link) => pathOf(link, Object.fromEntries(operationsOf(api, link)), subPathOf(link)),
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

const pathOf = (link: Pick<ServedLink, 'username' | 'slug'>, item: object, subPath = ''): string =>
  `${JSON.stringify(`/api/link/${addressOf(link)}${subPath}`)}:${JSON.stringify(item)}`

type Schema = Readonly<Record<string, unknown>>

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** What callers add to the address, as imported links say it in `x-path`: `/{petId}`. */
function subPathOf({ inputSchema }: Pick<ServedLink, 'inputSchema'>): string {
  const subPath = isSchema(inputSchema) ? inputSchema['x-path'] : undefined
  return typeof subPath === 'string' && subPath.startsWith('/') ? subPath : ''
}

/** Parameters beside the query of a GET, or the body: of imported links, which have them in `x-parameters`. */
function besideOf(inputSchema: Schema): object[] {
  const listed = Array.isArray(inputSchema['x-parameters']) ? inputSchema['x-parameters'] : []
  return listed.flatMap((one: unknown) => {
    if (!isSchema(one) || typeof one['name'] !== 'string') return []
    const { name, in: place, required, description, schema } = one
    if (!['path', 'query', 'header'].includes(String(place))) return []
    return [
      {
        ...{ name, in: place, required: place === 'path' || required === true },
        ...(typeof description === 'string' && { description }),
        schema: isSchema(schema) ? schema : {},
      },
    ]
  })
}

const briefOf = (api: Api, { title, price, ...link }: FoundLink) => ({
  summary: title,
  description: `${isPaid({ price }) ? `${price} USDC a call` : 'Free'}. This store has too many links to describe them all here: ${api.publicUrl}/discovery/resources has the terms and the input of paid ones, and so has the 402 of ${urlOf(api, link)}.`,
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
  if (!isSchema(inputSchema)) return {}
  const beside = besideOf(inputSchema)
  if (takesBody(method)) {
    // In a URI, as a reference is one, braces are written in hex (RFC 6901, section 6).
    const path = encodeURI(`/api/link/${addressOf(link)}${subPathOf({ inputSchema })}`)
      .replaceAll('~', '~0')
      .replaceAll('/', '~1')
    const place = `/paths/${path}/${method.toLowerCase()}/requestBody/content/application~1json/schema`
    const { 'x-path': _path, 'x-parameters': _parameters, ...own } = inputSchema
    const schema = movedTo(place, own)
    const requestBody = { required: true, content: { 'application/json': { schema } } }
    return { ...(beside.length > 0 && { parameters: beside }), requestBody }
  }
  const { properties, required } = inputSchema
  if (!isSchema(properties)) return beside.length === 0 ? {} : { parameters: beside }
  const needed = Array.isArray(required) ? required : []
  const query = Object.entries(properties).map(([name, schema]) => ({
    ...{ name, in: 'query', required: needed.includes(name) },
    // What it refers to does not stand in a list of parameters.
    schema: JSON.stringify(schema).includes('"$ref":"#') ? {} : schema,
  }))
  return { parameters: [...beside, ...query] }
}
