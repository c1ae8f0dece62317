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

/** `/docs`: the API's own routes, to read and try; works without a network. */
export async function docsRoutes(app: FastifyInstance, api: Api): Promise<void> {
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    // Without the bar that loads other documents, and the framework's logo in it.
    uiConfig: { layout: 'BaseLayout', docExpansion: 'list', deepLinking: true },
    theme: { title: `${api.serviceName} API` },
    staticCSP: contentSecurityPolicy,
  })
}
