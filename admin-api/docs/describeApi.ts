import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import type { Api } from '../deps.ts'
import type { Feature } from '../feature.ts'
import { errorSchema } from '../schema/answers.ts'

/** Collects the routes that follow into an OpenAPI 3.1 document. Register it before them. */
export async function describeApi(
  app: FastifyInstance,
  api: Api,
  features: readonly Feature[],
): Promise<void> {
  app.addSchema(errorSchema)
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: `${api.serviceName} API`,
        version: '1',
        description: `Sell calls to an API behind a paid link. Sign up with a wallet, create a link, and buyers pay per call over HTTP 402 (x402 v2) at \`${api.publicUrl}/api/link/{username}/{slug}\`.`,
      },
      servers: [{ url: api.publicUrl }],
      components: {
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', description: 'tg_live_…' },
          clientSecret: {
            ...{ type: 'apiKey', in: 'header', name: 'X-Client-Secret' },
            description: 'Of one payment session: pscs_…, or as the query parameter cs.',
          },
          operator: {
            type: 'apiKey',
            in: 'cookie',
            name: 'tollgate_operator',
            description: 'Of the operator.',
          },
          browser: {
            ...{ type: 'apiKey', in: 'cookie', name: 'tollgate_seller' },
            description:
              'Of a browser that signed in to the dashboard; its name begins with `__Host-` on https.',
          },
        },
      },
      tags: features.flatMap(({ name, about }) =>
        about === undefined ? [] : [{ name, description: about }],
      ),
    },
    // An operation that names no key needs none, and says so; generators of clients want a name for each.
    transformObject: (document) => {
      if (!('openapiObject' in document)) return document.swaggerObject
      for (const [path, methods] of Object.entries(document.openapiObject.paths ?? {})) {
        for (const [method, operation] of Object.entries(methods as Record<string, Operation>)) {
          operation.operationId = nameOf(method, path)
          operation.security ??= []
        }
      }
      return document.openapiObject
    },
    refResolver: { buildLocalReference: (json, _baseUri, _fragment, i) => String(json['$id'] ?? `def-${i}`) },
  })
}

interface Operation {
  operationId?: string
  security?: readonly object[]
}

/** `GET /api/v1/links/{id}` is `getLinksById`. */
const nameOf = (method: string, path: string): string =>
  method +
  path
    .replace(/^\/api(\/v1)?\//, '')
    .replaceAll('{', 'by-')
    .split(/[^a-zA-Z0-9]+/)
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join('')
