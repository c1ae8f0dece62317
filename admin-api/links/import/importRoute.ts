import type { FastifyInstance } from 'fastify'
import type { Api } from '../../deps.ts'
import { callerOf } from '../../http/callers.ts'
import type { Infer } from '../../http/fields.ts'
import { exactly, field, listOf, ok, respond, success } from '../../http/responses.ts'
import { updateLinkBody } from '../linkBodies.ts'
import { MAX_OPENAPI_BYTES } from './document.ts'
import { importLinks } from './importLinks.ts'
import { priceForm } from './prices.ts'

/**
 * Maximum size of the body, in bytes. It is larger than the document, because the document is a JSON string, in which each quote
 * and line break takes two bytes.
 */
const MAX_BODY_BYTES = 1.5 * MAX_OPENAPI_BYTES

const priceField = {
  type: 'string',
  pattern: priceForm.source,
  maxLength: 64,
  'x-hint': 'a decimal string such as "0.01", or none for an operation that is not for sale',
} as const

const { isPublic, upstreamHeaders } = updateLinkBody.properties

const importBody = {
  type: 'object',
  additionalProperties: false,
  required: ['document'],
  properties: {
    document: {
      type: ['string', 'object'],
      description: `An OpenAPI document of version 3.0 or 3.1 in YAML or JSON, of at most ${MAX_OPENAPI_BYTES} bytes. The document must not refer to other files. \`tollgate link import\` can also import a document that refers to other files.`,
    },
    as: {
      enum: ['each', 'one'],
      description:
        'each (the default) creates one link for each operation. one creates one link for the whole API with its sub-paths.',
    },
    server: {
      type: 'string',
      minLength: 1,
      maxLength: 2048,
      description: 'The base URL of the API. Default: the first server of the document.',
    },
    price: {
      ...priceField,
      description: 'The price of a call in USDC for operations that have no price in `prices` or `x-price`.',
    },
    prices: {
      type: 'object',
      additionalProperties: priceField,
      maxProperties: 1_000,
      description:
        'Prices of operations. The name of a price is `POST /render`, `/render` or an operationId. A `*` at the end of the name matches every ending. These prices override `x-price`.',
    },
    source: {
      type: 'string',
      pattern: '^[a-z0-9-]{3,64}$',
      'x-hint': '3 to 64 characters of a-z, 0-9 and -',
      description:
        'Your name for the document. An import with the same name changes the links of the earlier import. Default: made from the title.',
    },
    isPublic,
    upstreamHeaders,
    dryRun: {
      type: 'boolean',
      description:
        'If true, the response says what the import would do, but the gateway saves no link and calls no API.',
    },
    offset: {
      type: 'integer',
      minimum: 0,
      description: 'To continue a long import, the `nextOffset` of the previous response.',
    },
  },
} as const

const report = exactly({
  dryRun: field.flag,
  source: field.text(),
  server: field.text(),
  otherServers: listOf(field.text()),
  operations: listOf(
    exactly({
      operation: field.text('The operation, such as `POST /render`. `*` stands for the whole API.'),
      operationId: field.textOrNull(),
      action: {
        enum: ['create', 'change', 'keep', 'left_out', 'gone', 'failed'],
        description: 'What happened to the operation, or in a dry run, what would happen.',
      },
      price: field.textOrNull('USDC. The lowest price if the price depends on the request.'),
      title: field.textOrNull(),
      slug: field.textOrNull(),
      linkId: field.textOrNull(),
      fullUrl: field.textOrNull('The URL that callers use.'),
      changes: listOf(field.text('The name of a field.')),
      reason: field.textOrNull(
        'Why the import skipped the operation or failed, or a note about the operation.',
      ),
    }),
  ),
  nextOffset: {
    ...field.countOrNull,
    description:
      'Null after the whole import. Otherwise, send the same request again with this number as `offset`.',
  },
})

/** `POST /api/v1/links/import` creates links from an OpenAPI document. */
export function importRoute(app: FastifyInstance, api: Api): void {
  app.post<{ Body: Infer<typeof importBody> }>(
    '/api/v1/links/import',
    {
      bodyLimit: MAX_BODY_BYTES,
      schema: {
        summary: 'Import an OpenAPI document',
        description:
          'Creates a link for each operation with its input schema, or one link for the whole API. If you import the document again, the import updates the links whose operations have changed. An import never creates a link twice and never deletes a link. If an operation fails, the import continues with the next operation. A long import stops after some seconds. To continue, send the request again with `nextOffset` as `offset`.',
        body: importBody,
        response: respond({ 200: success(report) }, [400, 401, 413, 429]),
      },
    },
    async (request) => {
      const { store } = callerOf(request)
      const { document, as = 'each', prices = {}, dryRun = false, offset = 0, ...rest } = request.body
      const done = await importLinks(api, store, {
        text: typeof document === 'string' ? document : JSON.stringify(document),
        as,
        offset,
        isDryRun: dryRun,
        prices: new Map(Object.entries(prices)),
        server: rest.server,
        price: rest.price,
        source: rest.source,
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
