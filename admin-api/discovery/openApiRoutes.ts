import type { FastifyInstance } from 'fastify'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { findStore } from '../stores/storeRoute.ts'
import type { AnswerCache } from './answerCache.ts'
import { describedLinks } from './described.ts'
import { asPaths, paymentRequired } from './linkPaths.ts'
import { sendKept } from './sendKept.ts'

/** As many as a store has by default. */
const MAX_STORE_LINKS = 1_000
/** A market may have more; a document of these has 4 to 8 MB, which its readers still take. */
const MAX_MARKET_LINKS = 10_000

/** `/openapi.json`, which discovery tools read first, and `/{username}/openapi.json`: links as buyers' tools read an API. */
export function openApiRoutes(app: FastifyInstance, api: Api, cache: AnswerCache): void {
  const onRequest = limitPerClient(api, 'discover', api.limits.discoverPerMinute, minuteMs)
  const describing = asPaths(api)

  app.get(
    '/openapi.json',
    { config: { anyOrigin: true }, schema: { hide: true }, onRequest },
    async (request, reply) => {
      const answer = await cache.of('openapi.json', async () => {
        const { paths, components, info, ...rest } = app.swagger() as ApiDocument
        const query = { sort: 'popular', isFree: false, limit: MAX_MARKET_LINKS, offset: 0 } as const
        const { texts, addresses, total, found } = await describedLinks(api, query, describing)
        const some = ` It names the ${found} most popular of ${total} paid links: ${api.publicUrl}/discovery/resources has all of them, and ${api.publicUrl}/{username}/openapi.json those of a store.`
        const head = {
          ...rest,
          info: found < total ? { ...info, description: info.description + some } : info,
          components: { ...components, ...paymentRequired },
        }
        const own = JSON.stringify(paths).slice(1, -1)
        return { body: documentOf(head, [own, ...texts]), addresses }
      })
      return sendKept(request, reply, answer)
    },
  )

  app.get<{ Params: { username: string } }>(
    '/:username/openapi.json',
    { config: { anyOrigin: true, answers404: true }, schema: { hide: true }, onRequest },
    async (request, reply) => {
      const { username } = request.params
      const store = await findStore(api, username)
      if (store === undefined) throw new TollgateError('NOT_FOUND', 'There is no store with this username.')
      if (store.username !== username) return reply.redirect(`/${store.username}/openapi.json`, 307)
      const answer = await cache.of(`openapi ${username}`, async () => {
        const query = { sort: 'newest', username, limit: MAX_STORE_LINKS, offset: 0 } as const
        const { texts, addresses } = await describedLinks(api, query, describing)
        return {
          body: documentOf(headOf(api, store), texts),
          // The store itself stands in it, too: its name may change while it has no links.
          addresses: [...addresses, `${username}/`],
        }
      })
      return sendKept(request, reply, answer)
    },
  )
}

/** What is read of the API's own document. */
interface ApiDocument {
  readonly info: { readonly description: string }
  readonly paths: object
  readonly components: object
}

/** @param paths as JSON without braces, each one path or several */
const documentOf = (head: object, paths: readonly string[]): string =>
  `${JSON.stringify(head).slice(0, -1)},"paths":{${paths.join()}}}`

const headOf = (api: Api, { username, displayName, bio }: Store) => ({
  openapi: '3.1.0',
  info: {
    title: `${displayName} on ${api.serviceName}`,
    version: '1',
    description:
      bio === '' ? `APIs of ${displayName}. Paid ones answer 402 with the terms of x402 first.` : bio,
  },
  servers: [{ url: api.publicUrl }],
  externalDocs: { url: `${api.publicUrl}/${username}` },
  components: paymentRequired,
})
