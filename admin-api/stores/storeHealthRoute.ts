import type { FastifyInstance } from 'fastify'
import type { ServedLink } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { healthHistory, healthHistorySchema } from '../links/healthHistory.ts'
import { answers, success } from '../schema/answers.ts'
import { findStore } from './storeRoute.ts'

const params = {
  type: 'object',
  required: ['username', 'slug'],
  properties: { username: { type: 'string' }, slug: { type: 'string' } },
} as const

/** `GET /api/store/:username/:slug/health`: how a public link could be called in the last thirty days. */
export function storeHealthRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Params: { username: string; slug: string } }>(
    '/api/store/:username/:slug/health',
    {
      config: { anyOrigin: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, minuteMs),
      schema: {
        summary: "Read a link's uptime",
        description:
          'Of a public link, day by day, UTC, the oldest first. What is suspended counts as not there. A former address redirects for 30 days.',
        params,
        response: answers({ 200: success(healthHistorySchema) }, 404, 429),
      },
    },
    async (request, reply) => {
      const { username, slug } = request.params
      const link = await publicLink(api, username, slug)
      if (link === undefined)
        throw new TollgateError('LINK_NOT_FOUND', 'There is no public link at this address.')
      if (link.username !== username || link.slug !== slug)
        return reply.redirect(`/api/store/${link.username}/${link.slug}/health`, 307)
      reply.header('cache-control', 'public, max-age=60')
      return ok(await healthHistory(api, link))
    },
  )
}

/** A link that strangers may see, suspended ones included; by a former address too, as long as that redirects. */
export async function publicLink(api: Api, username: string, slug: string): Promise<ServedLink | undefined> {
  const store = await findStore(api, username)
  if (store === undefined) return
  const former = await api.links.redirectOf(store.username, slug, api.clock.now())
  const link = await api.links.served(store.username, former?.slug ?? slug)
  return link?.isPublic && !link.isStealth ? link : undefined
}
