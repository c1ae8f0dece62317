import { isPaid, type ServedLink } from '../../core/domain/link.ts'
import type { FoundLink } from '../../core/ports/store/discovery.ts'
import { movedTo, shownMethod, takesBody } from '../../core/x402/bazaar.ts'
import type { Api } from '../deps.ts'
import { addressOf, type Describing } from './described.ts'

/** A document that has this many characters names the links that come then, with their price, and says no more of them. */
const WHOLE_CHARS = 1_000_000

/** Links as paths of an OpenAPI document, which has {@link paymentRequired} among its components. */
export const asPaths = (api: Pick<Api, 'termsOf'>): Describing => ({
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

/** `error` of the answer to a payment that was read and refused. */
const refusal = {
  type: 'object',
  required: ['code', 'message', 'requestId', 'reason', 'retryable'],
  properties: {
    code: { const: 'invalid_payment' },
    message: { type: 'string' },
    requestId: { type: 'string' },
    reason: { type: 'string', description: 'In the words of x402.' },
    retryable: { const: false },
  },
}

/** Components of such a document. */
export const paymentRequired = {
  responses: {
    PaymentRequired: {
      description:
        'Payment required: the offer of x402 version 2, as in the header. After a payment that was read and refused, a fresh one beside the envelope of every error: nothing was charged.',
      headers: {
        'PAYMENT-REQUIRED': {
          description:
            'Base64 of the offer. Its error is `payment_required`, or why the payment was refused.',
          schema: { type: 'string' },
        },
        'PAYMENT-RESPONSE': {
          description: 'Of a refused payment: base64 of {success: false, errorReason, transaction, network}.',
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
                description: 'After a refused payment an object, whose `reason` is that of x402.',
                anyOf: [{ type: 'string' }, refusal],
              },
              success: { const: false, description: 'After a refused payment.' },
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
                description: 'Ways to pay: sign one of them.',
                items: {
                  type: 'object',
                  required: ['scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds'],
                  properties: {
                    scheme: { type: 'string' },
                    network: { type: 'string', description: 'A CAIP-2 id.' },
                    amount: { type: 'string', description: 'In the smallest unit of the asset.' },
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

type Operations = readonly (readonly [method: string, operation: object])[]

function operationsOf(link: FoundLink | ServedLink, operationOf: (method: string) => object): Operations {
  const methods = link.methods.length === 0 ? [shownMethod(link)] : link.methods
  return methods.map((method) => [method.toLowerCase(), operationOf(method)])
}

/** With what its seller says of input and output. */
const operationOf = (api: Pick<Api, 'termsOf'>, link: ServedLink, method: string) => ({
  ...namedOf(link, method),
  ...(link.description !== '' && { description: link.description }),
  ...(link.tags.length > 0 && { tags: link.tags }),
  ...inputOf(link, method),
  ...paymentOf(link, { accepts: api.termsOf(link) }),
  responses: responsesOf(link, {
    ...(link.outputExample !== null && {
      content: { 'application/json': { example: answerOf(link) } },
    }),
  }),
})

/** Without: its 402 has it. */
const briefOf = (link: FoundLink, method: string) => ({
  ...namedOf(link, method),
  ...paymentOf(link),
  responses: responsesOf(link),
})

const namedOf = ({ username, slug, title }: FoundLink | ServedLink, method: string) => ({
  operationId: `${username}-${slug}-${method.toLowerCase()}`,
  summary: title,
  security: [],
})

/** As the payment discovery draft and x402scan's library read it. */
const paymentOf = (link: Pick<ServedLink, 'price'>, more: { accepts?: readonly object[] } = {}) =>
  isPaid(link)
    ? {
        'x-payment-info': {
          price: { mode: 'fixed', currency: 'USD', amount: link.price },
          protocols: [{ x402: {} }],
          ...more,
        },
      }
    : undefined

const responsesOf = (link: Pick<ServedLink, 'price'>, answer: object = {}) =>
  isPaid(link)
    ? {
        200: { description: "The seller's answer, and the purchase beside it.", ...answer },
        402: { $ref: '#/components/responses/PaymentRequired' },
      }
    : { 200: { description: "The seller's answer.", ...answer } }

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
