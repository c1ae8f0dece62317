import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import type { Api } from '../deps.ts'

/** Everything from this origin; the user interface writes style attributes, so styles may be inline. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** `/openapi.json`, and `/docs` to read and try it; both work without a network. */
export async function docsRoutes(app: FastifyInstance, api: Api): Promise<void> {
  let document: string | undefined
  app.get(
    '/openapi.json',
    { config: { anyOrigin: true }, schema: { hide: true } },
    async (_request, reply) => {
      document ??= JSON.stringify(app.swagger())
      return reply
        .type('application/json; charset=utf-8')
        .header('cache-control', 'public, max-age=60')
        .send(document)
    },
  )
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    // Without the bar that loads other documents, and the framework's logo in it.
    uiConfig: { layout: 'BaseLayout', docExpansion: 'list', deepLinking: true },
    theme: { title: `${api.serviceName} API` },
    staticCSP: contentSecurityPolicy,
  })
}
