import type { FastifyInstance } from 'fastify'
import { isPaid, type ServedLink } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { FoundLink } from '../../core/ports/store/discovery.ts'
import { movedTo, shownMethod, takesBody } from '../../core/x402/bazaar.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, MINUTE_MS } from '../http/callers.ts'
import { type ResponseCache, sendCached } from '../http/responses.ts'
import { addressOf, type Describing, describedLinks } from './listedLinks.ts'
import { findStore } from './storeRoutes.ts'

/** After this many characters, a document lists further links only with their prices. */
const WHOLE_CHARS = 1_000_000

/** Links as paths of an OpenAPI document. The document has {@link paymentRequired} among its components. */
const asPaths = (api: Pick<Api, 'termsOf'>): Describing => ({
  whole: (link) =>
    pathOf(
      link,
      operationsOf(link, (method) => operationOf(api, link, method)),
      subPathOf(link),
    ),
  brief: (link) =>
    pathOf(
      link,
      operationsOf(link, (method) => briefOf(link, method)),
    ),
  wholeChars: WHOLE_CHARS,
})

/** The schema of `error` in the response to a payment that was parsed and refused. */
const refusal = {
  type: 'object',
  required: ['code', 'message', 'requestId', 'reason', 'retryable'],
  properties: {
    code: { const: 'invalid_payment' },
    message: { type: 'string' },
    requestId: { type: 'string' },
    reason: { type: 'string', description: "x402's reason for the refusal." },
    retryable: { const: false },
  },
}

/** Components of every document with paid links. */
const paymentRequired = {
  responses: {
    PaymentRequired: {
      description:
        'The call needs a payment. The body is the x402 version 2 offer, as in the header. If the payment was refused, nothing was charged, and the response has a new offer and the error.',
      headers: {
        'PAYMENT-REQUIRED': {
          description:
            'The offer in base64. Its error is `payment_required`, or the reason why the payment was refused.',
          schema: { type: 'string' },
        },
        'PAYMENT-RESPONSE': {
          description:
            'Only after a refused payment. Base64 of {success: false, errorReason, transaction, network}.',
          schema: { type: 'string' },
        },
      },
      content: {
        'application/json': {
          schema: {
            type: 'object',
            required: ['x402Version', 'error', 'resource', 'accepts'],
            properties: {
              x402Version: { const: 2 },
              error: {
                description:
                  "payment_required, or after a refused payment an object whose `reason` is x402's reason for the refusal.",
                anyOf: [{ type: 'string' }, refusal],
              },
              success: { const: false, description: 'Only after a refused payment.' },
              resource: {
                type: 'object',
                required: ['url'],
                properties: {
                  url: { type: 'string' },
                  description: { type: 'string' },
                  mimeType: { type: 'string' },
                },
              },
              accepts: {
                type: 'array',
                description: 'The payment methods. Sign a payment for one of them.',
                items: {
                  type: 'object',
                  required: ['scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds'],
                  properties: {
                    scheme: { type: 'string' },
                    network: {
                      type: 'string',
                      description: 'The network as a CAIP-2 id, such as eip155:8453.',
                    },
                    amount: { type: 'string', description: 'The amount in the smallest unit of the asset.' },
                    asset: { type: 'string' },
                    payTo: { type: 'string' },
                    maxTimeoutSeconds: { type: 'integer' },
                    extra: { type: 'object' },
                  },
                },
              },
              extensions: { type: 'object' },
            },
          },
        },
      },
    },
  },
}

const pathOf = (link: FoundLink | ServedLink, operations: Operations, subPath = ''): string =>
  `${JSON.stringify(`/api/link/${addressOf(link)}${subPath}`)}:${JSON.stringify(Object.fromEntries(operations))}`

type Schema = Readonly<Record<string, unknown>>

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The path that callers append to the link's address, such as `/{petId}`. Imported links have it in `x-path`. */
function subPathOf({ inputSchema }: Pick<ServedLink, 'inputSchema'>): string {
  const subPath = isSchema(inputSchema) ? inputSchema['x-path'] : undefined
  return typeof subPath === 'string' && subPath.startsWith('/') ? subPath : ''
}

/** Parameters other than the query of a GET or the body. Imported links have them in `x-parameters`. */
function siblingsOf(inputSchema: Schema): object[] {
  const listed = Array.isArray(inputSchema['x-parameters']) ? inputSchema['x-parameters'] : []
  return listed.flatMap((one: unknown) => {
    if (!isSchema(one) || typeof one['name'] !== 'string') return []
    const { name, in: place, required, description, schema } = one
    if (!['path', 'query', 'header'].includes(String(place))) return []
    return [
      {
        name,
        in: place,
        required: place === 'path' || required === true,
        ...(typeof description === 'string' && { description }),
        schema: isSchema(schema) ? schema : {},
      },
    ]
  })
}

type Operations = readonly (readonly [method: string, operation: object])[]

function operationsOf(link: FoundLink | ServedLink, operationOf: (method: string) => object): Operations {
  const methods = link.methods.length === 0 ? [shownMethod(link)] : link.methods
  return methods.map((method) => [method.toLowerCase(), operationOf(method)])
}

/** An operation with the seller's input schema and output example. */
const operationOf = (api: Pick<Api, 'termsOf'>, link: ServedLink, method: string) => ({
  ...namedOf(link, method),
  ...(link.description !== '' && { description: link.description }),
  ...(link.tags.length > 0 && { tags: link.tags }),
  ...withSignIn(link, inputOf(link, method)),
  ...paymentOf(link, { accepts: api.termsOf(link) }),
  responses: responsesOf(link, {
    ...(link.outputExample !== null && {
      content: { 'application/json': { example: responseOf(link) } },
    }),
  }),
})

/** An operation without the seller's schema and example. A client finds these in the link's 402. */
const briefOf = (link: FoundLink, method: string) => ({
  ...namedOf(link, method),
  ...withSignIn(link, {}),
  ...paymentOf(link),
  responses: responsesOf(link),
})

const namedOf = ({ username, slug, title }: FoundLink | ServedLink, method: string) => ({
  operationId: `${username}-${slug}-${method.toLowerCase()}`,
  summary: title,
  security: [],
})

/** The payment in the format of the payment discovery draft and of x402scan's library. */
const paymentOf = (
  link: Pick<ServedLink, 'price' | 'priceMax'>,
  more: { accepts?: readonly object[] } = {},
) =>
  isPaid(link)
    ? {
        'x-payment-info': {
          price:
            link.priceMax === null
              ? { mode: 'fixed', currency: 'USD', amount: link.price }
              : {
                  mode: 'dynamic',
                  currency: 'USD',
                  // The lowest price of a price server is not known.
                  min: link.price === link.priceMax ? '0' : link.price,
                  max: link.priceMax,
                },
          protocols: [{ x402: {} }],
          ...more,
        },
      }
    : undefined

/** The part of an operation that describes its input. */
interface Input {
  readonly parameters?: readonly object[]
  readonly requestBody?: object
}

/** Adds the header with which a wallet calls a link by a signature. */
function withSignIn({ access }: Pick<ServedLink, 'access'>, input: Input): object {
  if (access === null) return input
  const which =
    access === 'signed-in'
      ? 'Every wallet'
      : `A wallet that has paid for the link in the last ${access.paidFor}`
  const header = {
    name: 'SIGN-IN-WITH-X',
    in: 'header',
    required: false,
    description: `${which} can call the link by a signature of the text in extensions["sign-in-with-x"] of the 402.`,
    schema: { type: 'string' },
  }
  return { ...input, parameters: [...(input.parameters ?? []), header] }
}

const responsesOf = (link: Pick<ServedLink, 'price' | 'access'>, response: object = {}) =>
  isPaid(link)
    ? {
        200: { description: "The seller's response and the purchase.", ...response },
        402: { $ref: '#/components/responses/PaymentRequired' },
      }
    : {
        200: { description: "The seller's response.", ...response },
        ...(link.access !== null && { 402: { $ref: '#/components/responses/PaymentRequired' } }),
      }

/** The response as a buyer gets it. If the link wraps, the response is wrapped here too, but without the fields of the purchase. */
const responseOf = ({ outputExample, responseMode, ...link }: ServedLink) =>
  isPaid(link) && responseMode === 'wrap' ? { data: outputExample } : outputExample

function inputOf({ inputSchema, ...link }: ServedLink, method: string): Input {
  if (!isSchema(inputSchema)) return {}
  const beside = siblingsOf(inputSchema)
  if (takesBody(method)) {
    // The path is in a reference, which is a URI. So braces are percent-encoded (RFC 6901, section 6).
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
    name,
    in: 'query',
    required: needed.includes(name),
    // A list of parameters cannot resolve references within the schema, so such a schema is left out.
    schema: JSON.stringify(schema).includes('"$ref":"#') ? {} : schema,
  }))
  return { parameters: [...beside, ...query] }
}

/** Maximum number of links of a store's document. It is also the default limit of a store. */
const MAX_STORE_LINKS = 1_000
/**
 * Maximum number of links of the marketplace's document. With this many links, the document has 4 to 8 MB, which readers still
 * accept.
 */
const MAX_MARKET_LINKS = 10_000

/**
 * `/openapi.json` and `/{username}/openapi.json` describe paid links as an OpenAPI document. Discovery tools read `/openapi.json`
 * first.
 */
export function openApiRoutes(app: FastifyInstance, api: Api, cache: ResponseCache): void {
  const onRequest = limitPerClient(api, 'discover', api.limits.discoverPerMinute, MINUTE_MS)
  const describing = asPaths(api)

  app.get(
    '/openapi.json',
    { config: { anyOrigin: true }, schema: { hide: true }, onRequest },
    async (request, reply) => {
      const response = await cache.of('openapi.json', async () => {
        const { paths, components, info, ...rest } = app.swagger() as ApiDocument
        const query = { sort: 'popular', isFree: false, limit: MAX_MARKET_LINKS, offset: 0 } as const
        const { texts, addresses, total, found } = await describedLinks(api, query, describing)
        const some = ` It has the ${found} most popular of ${total} paid links. All of them are at ${api.publicUrl}/discovery/resources, and those of one store at ${api.publicUrl}/{username}/openapi.json.`
        const head = {
          ...rest,
          info: found < total ? { ...info, description: info.description + some } : info,
          components: { ...components, ...paymentRequired },
        }
        const own = JSON.stringify(paths).slice(1, -1)
        return { body: documentOf(head, [own, ...texts]), addresses }
      })
      return sendCached(request, reply, response)
    },
  )

  app.get<{ Params: { username: string } }>(
    '/:username/openapi.json',
    { config: { anyOrigin: true, answers404: true }, schema: { hide: true }, onRequest },
    async (request, reply) => {
      const { username } = request.params
      const store = await findStore(api, username)
      if (store === undefined) throw new TollgateError('NOT_FOUND', 'No store has this username.')
      if (store.username !== username) return reply.redirect(`/${store.username}/openapi.json`, 307)
      const response = await cache.of(`openapi ${username}`, async () => {
        const query = { sort: 'newest', username, limit: MAX_STORE_LINKS, offset: 0 } as const
        const { texts, addresses } = await describedLinks(api, query, describing)
        return {
          body: documentOf(headOf(api, store), texts),
          // The store itself counts as part of the document, because its name can change while it has no links.
          addresses: [...addresses, `${username}/`],
        }
      })
      return sendCached(request, reply, response)
    },
  )
}

/** The parts of the API's own document that this file uses. */
interface ApiDocument {
  readonly info: { readonly description: string }
  readonly paths: object
  readonly components: object
}

/** @param paths as JSON without braces, each with one or several paths */
const documentOf = (head: object, paths: readonly string[]): string =>
  `${JSON.stringify(head).slice(0, -1)},"paths":{${paths.join()}}}`

const headOf = (api: Api, { username, displayName, bio }: Store) => ({
  openapi: '3.1.0',
  info: {
    title: `${displayName} on ${api.serviceName}`,
    version: '1',
    description:
      bio === ''
        ? `APIs of ${displayName}. Paid ones first respond with 402 and the x402 payment terms.`
        : bio,
  },
  servers: [{ url: api.publicUrl }],
  externalDocs: { url: `${api.publicUrl}/${username}` },
  components: paymentRequired,
})
