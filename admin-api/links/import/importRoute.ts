import type { FastifyInstance } from 'fastify'
import { callerOf } from '../../auth/authenticate.ts'
import type { Api } from '../../deps.ts'
import { ok } from '../../http/envelope.ts'
import {
  answers,
  countOrNull,
  exactly,
  flag,
  listOf,
  success,
  text,
  textOrNull,
} from '../../schema/answers.ts'
import type { Infer } from '../../schema/infer.ts'
import { updateLinkBody } from '../linkBodies.ts'
import { MAX_OPENAPI_BYTES } from './document.ts'
import { importLinks } from './importLinks.ts'
import { priceForm } from './prices.ts'

/** The document stands in the body as text, where each of its quotes and line ends takes two bytes. */
const MAX_BODY_BYTES = 1.5 * MAX_OPENAPI_BYTES

const priceField = {
  type: 'string',
  pattern: priceForm.source,
  maxLength: 64,
  'x-hint': 'a decimal string such as "0.01", or none for what is not for sale',
} as const

const { isPublic, upstreamHeaders } = updateLinkBody.properties

const importBody = {
  type: 'object',
  additionalProperties: false,
  required: ['document'],
  properties: {
    document: {
      type: ['string', 'object'],
      description: `An OpenAPI document of version 3.0 or 3.1, YAML or JSON, at most ${MAX_OPENAPI_BYTES} bytes. References are followed within it only; \`tollgate link import\` reads the files beside it as well.`,
    },
    as: {
      enum: ['each', 'one'],
      description:
        'each, the default: a link an operation. one: one link for the whole API, with its sub-paths.',
    },
    server: {
      type: 'string',
      minLength: 1,
      maxLength: 2048,
      description: "Base address of the API; the document's first when left out.",
    },
    price: {
      ...priceField,
      description: 'USDC a call, where neither `prices` nor `x-price` in the document says one.',
    },
    prices: {
      type: 'object',
      additionalProperties: priceField,
      maxProperties: 1_000,
      description:
        'By `POST /render`, `/render` or an operationId; with a `*` at the end for all that begin so. Goes before `x-price`.',
    },
    source: {
      type: 'string',
      pattern: '^[a-z0-9-]{3,64}$',
      'x-hint': '3 to 64 characters of a-z, 0-9 and -',
      description:
        'Your name for the document: an import of the same name changes the links of the one before. Made from the title when left out.',
    },
    isPublic,
    upstreamHeaders,
    dryRun: {
      type: 'boolean',
      description: 'Says what would become of each operation; makes and asks nothing.',
    },
    offset: {
      type: 'integer',
      minimum: 0,
      description: '`nextOffset` of the answer before, where an import takes more than one request.',
    },
  },
} as const

const report = exactly({
  dryRun: flag,
  source: text(),
  server: text(),
  otherServers: listOf(text()),
  operations: listOf(
    exactly({
      operation: text('`POST /render`; `*` for the whole API.'),
      operationId: textOrNull(),
      action: {
        enum: ['create', 'change', 'keep', 'left_out', 'gone', 'failed'],
        description: 'In a dry run: what would become of it.',
      },
      price: textOrNull('USDC.'),
      title: textOrNull(),
      slug: textOrNull(),
      linkId: textOrNull(),
      fullUrl: textOrNull('The address that callers use.'),
      changes: listOf(text('The name of a field.')),
      reason: textOrNull('Why it is left out or failed, or what to know about it.'),
    }),
  ),
  nextOffset: { ...countOrNull, description: 'Not null: send the same again with this `offset`.' },
})

/** `POST /api/v1/links/import`: links from an OpenAPI document. */
export function importRoute(app: FastifyInstance, api: Api): void {
  app.post<{ Body: Infer<typeof importBody> }>(
    '/api/v1/links/import',
    {
      bodyLimit: MAX_BODY_BYTES,
      schema: {
        summary: 'Import an OpenAPI document',
        description:
          'Makes a link of each operation, with its input schema, or one for the whole API. Importing the document again changes what has changed, makes no link twice and deletes none. An operation that fails does not stop the others; after some seconds the answer says where the next request goes on.',
        body: importBody,
        response: answers({ 200: success(report) }, 400, 401, 413, 429),
      },
    },
    async (request) => {
      const { store } = callerOf(request)
      const { document, as = 'each', prices = {}, dryRun = false, offset = 0, ...rest } = request.body
      const done = await importLinks(api, store, {
        text: typeof document === 'string' ? document : JSON.stringify(document),
        ...{ as, offset, isDryRun: dryRun, prices: new Map(Object.entries(prices)) },
        ...{ server: rest.server, price: rest.price, source: rest.source },
        isPublic: rest.isPublic ?? undefined,
        upstreamHeaders: rest.upstreamHeaders ?? undefined,
      })
      const operations = done.operations.map((one) => ({
        ...one,
        fullUrl: one.linkId && one.slug && `${api.publicUrl}/api/link/${store.username}/${one.slug}`,
      }))
      return ok({ dryRun, ...done, operations })
    },
  )
}
