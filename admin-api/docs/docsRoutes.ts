import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { GuidePage } from '../../web/guides/guidePage.ts'
import { html } from '../../web/html.ts'
import type { Api } from '../deps.ts'
import type { KeptAnswer } from '../discovery/answerCache.ts'
import { sendKept } from '../discovery/sendKept.ts'
import { answerNotFound, keptPage } from '../pages/keptPage.ts'
import { docsFolder, guideGroups, readGuide } from './guides.ts'

/** Everything from this origin; the user interface writes style attributes, so styles may be inline. */
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

/** `/docs`: the guides in the service's own pages, and in `/docs/api` every route to read and try. Works without a network. */
export async function docsRoutes(app: FastifyInstance, api: Api): Promise<void> {
  const pages = new Map<string, KeptAnswer>()
  const route = { config: { answers404: true }, schema: { hide: true } }

  app.get('/docs', { schema: { hide: true } }, async (request, reply) =>
    sendKept(request, reply, pageOf('')!, 'text/html; charset=utf-8'),
  )
  app.get<{ Params: { name: string } }>('/docs/:name', route, async (request, reply) => {
    const page = pageOf(request.params.name)
    if (page === undefined) return answerNotFound(request, reply, api)
    return sendKept(request, reply, page, 'text/html; charset=utf-8')
  })
  app.get<{ Params: { name: string } }>('/docs/pictures/:name', route, async (request, reply) => {
    const { name } = request.params
    if (!/^[a-z-]+\.png$/.test(name) || docsFolder === undefined) return answerNotFound(request, reply, api)
    const picture = readPicture(new URL(`pictures/${name}`, docsFolder))
    if (picture === undefined) return answerNotFound(request, reply, api)
    return reply.header('cache-control', 'public, max-age=3600').type('image/png').send(picture)
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs/api/ui',
    staticCSP: referencePolicy,
    uiHooks: {
      // Its own page stands beside the service's; only what `/docs/api` loads of it is served.
      onRequest: async ({ url }, reply) =>
        /\.(?:css|js)$|\/json$/.test(url) ? undefined : reply.redirect('/docs/api'),
    },
  })

  /** A guide's page, rendered once. @param name empty for the list of guides */
  function pageOf(name: string): KeptAnswer | undefined {
    const present = pages.get(name)
    if (present !== undefined) return present
    const guide = readGuide(name)
    if (guide === undefined && name !== '') return
    const { serviceName, publicUrl } = api
    const title = guide?.title ?? 'Documentation'
    const answer = keptPage(
      {
        name: 'guides',
        title: `${title} · ${serviceName}`,
        description: `${title}: how to buy, sell and operate with ${serviceName}.`,
        canonicalUrl: `${publicUrl}/docs${name && `/${name}`}`,
        body: html`<${GuidePage} serviceName=${serviceName} groups=${guideGroups} name=${name} text=${guide?.html} />`,
      },
      [],
    )
    const page = {
      ...answer,
      ...(name === 'api' && { policy: referencePolicy }),
      etag: `W/"${hash('sha256', answer.body, 'base64url').slice(0, 22)}"`,
    }
    pages.set(name, page)
    return page
  }
}

function readPicture(file: URL): Buffer | undefined {
  try {
    return readFileSync(file)
  } catch {
    return undefined
  }
}
