import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import type { Api } from '../../deps.ts'
import { errorSchema } from '../../schema/answers.ts'

/** Collects the routes that follow into an OpenAPI 3.1 document. Register it before them. */
export async function describeApi(app: FastifyInstance, api: Api): Promise<void> {
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
        securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', description: 'tg_live_…' } },
      },
      tags: [
        { name: 'Agent', description: 'Sign up with a wallet; API keys.' },
        { name: 'Profile', description: 'The own store.' },
        { name: 'Links', description: 'What the store sells.' },
        { name: 'Purchases', description: 'What it sold.' },
        { name: 'Stats', description: 'How it does.' },
        { name: 'Store', description: 'What anybody may see.' },
        { name: 'Operator', description: 'For whoever runs the service.' },
      ],
    },
    refResolver: { buildLocalReference: (json, _baseUri, _fragment, i) => String(json['$id'] ?? `def-${i}`) },
  })
}
