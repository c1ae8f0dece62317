import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import type { Api, Feature } from '../deps.ts'
import { errorSchema } from './responses.ts'

/** Collects the routes that are registered after this call into an OpenAPI 3.1 document. */
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
          apiKey: { type: 'http', scheme: 'bearer', description: 'An API key of the store, tg_live_….' },
          clientSecret: {
            type: 'apiKey',
            in: 'header',
            name: 'X-Client-Secret',
            description:
              'The client secret of one payment session, pscs_…. A client may also send the client secret as the query parameter cs.',
          },
          reviewToken: {
            type: 'apiKey',
            in: 'header',
            name: 'X-Review-Token',
            description: 'The review token of one purchase, from the paid response.',
          },
          operator: {
            type: 'apiKey',
            in: 'cookie',
            name: 'tollgate_operator',
            description: "The operator's browser session.",
          },
          browser: {
            type: 'apiKey',
            in: 'cookie',
            name: 'tollgate_seller',
            description:
              'The session cookie of a browser that is signed in to the dashboard. Over https its name begins with `__Host-`.',
          },
        },
      },
      tags: features.flatMap(({ name, about }) =>
        about === undefined ? [] : [{ name, description: about }],
      ),
    },
    // An operation without a security requirement gets an empty one. Each operation gets a name, because client generators need
    // one.
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

/** The operation id of a route. For example, `GET /api/v1/links/{id}` is `getLinksById`. */
const nameOf = (method: string, path: string): string =>
  method +
  path
    .replace(/^\/api(\/v1)?\//, '')
    .replaceAll('{', 'by-')
    .split(/[^a-zA-Z0-9]+/)
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join('')
