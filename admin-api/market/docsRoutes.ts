import { hash } from 'node:crypto'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { renderToString } from 'preact-render-to-string'
import { html } from '../../web/html.ts'
import { ReferencePage } from '../../web/reference/referencePage.ts'
import { openDocs } from '../../web/render/docsSite.ts'
import { SiteLinks } from '../../web/site/siteShell.ts'
import type { Api } from '../deps.ts'
import { answerNotFound, cachedPage, sendAsset } from '../http/pages.ts'
import { type CachedResponse, isKnown, sendCached } from '../http/responses.ts'

/** The policy of the built documentation. It allows only the documentation's own files, and no inline scripts. */
const docsPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

/**
 * The policy of the API reference, which loads everything from this origin. Inline styles are allowed, because the user interface
 * of the reference writes style attributes.
 */
const referencePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** `/docs/` is the documentation, with the API reference in `/docs/api`. Both work without access to the internet. */
export async function docsRoutes(app: FastifyInstance, api: Api): Promise<void> {
  const { serviceName } = api
  const header = html`<${SiteLinks} serviceName=${serviceName} current="/docs/" />`
  const read = openDocs(renderToString(header))

  for (const url of ['/docs', '/docs/*'])
    app.get(url, { schema: { hide: true } }, async (request, reply) => sendFile(request, reply))

  const reference = referenceOf(api)
  app.get('/docs/api', { schema: { hide: true } }, async (request, reply) =>
    sendCached(request, reply, reference, 'text/html; charset=utf-8'),
  )
  await app.register(swaggerUi, {
    routePrefix: '/docs/api/ui',
    staticCSP: referencePolicy,
    uiHooks: {
      // This service has its own page for the reference, so it serves only the files that `/docs/api` loads.
      onRequest: async ({ url }, reply) =>
        /\.(?:css|js)$|\/json$/.test(url) ? undefined : reply.redirect('/docs/api'),
    },
  })

  function sendFile(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    // The path is read from the URL as sent, because the router ignores a missing slash at the end. Addresses in a page are
    // relative to its folder, so the slash is needed.
    const path = request.url.split('?')[0]!.slice('/docs'.length)
    const file = read(path)
    if (file === undefined)
      return read(`${path}/`) === undefined
        ? answerNotFound(request, reply, api)
        : reply.redirect(`/docs${path}/`, 308)
    reply.header('etag', file.etag).header('cache-control', 'public, max-age=60')
    reply.header('content-security-policy', docsPolicy)
    if (isKnown(request.headers['if-none-match'], file.etag)) return reply.code(304).send()
    return sendAsset(request, reply, file)
  }
}

function referenceOf({ serviceName, publicUrl }: Api): CachedResponse {
  const response = cachedPage(
    {
      name: 'reference',
      title: `API reference · ${serviceName}`,
      description: `Every route of ${serviceName}, with a form to try it.`,
      canonicalUrl: `${publicUrl}/docs/api`,
      body: html`<${ReferencePage} serviceName=${serviceName} />`,
    },
    [],
  )
  const etag = `W/"${hash('sha256', response.body, 'base64url').slice(0, 22)}"`
  return { ...response, policy: referencePolicy, etag }
}
