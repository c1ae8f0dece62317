import type { FastifyInstance } from 'fastify'
import { TollgateError } from '../../../core/errors/error.ts'
import type { Api } from '../../deps.ts'
import { limitPerClient, minuteMs } from '../../http/rateLimits.ts'
import { findStore } from '../store/storeRoute.ts'
import { indexPage } from './indexPage.ts'
import { sendPage } from './sendPage.ts'
import { storePage } from './storePage.ts'

/** Pages for a browser: `/`, and a store's at `{base}/<username>`. */
export function pageRoutes(app: FastifyInstance, api: Api): void {
  const index = indexPage(api)
  app.get('/', { schema: { hide: true } }, async (_request, reply) => sendPage(reply, index))

  app.get<{ Params: { username: string } }>(
    '/:username',
    {
      // Every unknown address of one segment ends here; it is not there for any method.
      config: { answers404: true },
      schema: { hide: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, minuteMs),
    },
    async (request, reply) => {
      const { username } = request.params
      const store = await findStore(api, username)
      if (store === undefined) {
        throw new TollgateError('NOT_FOUND', 'There is no store and no page with this name; see /docs.')
      }
      if (store.username !== username) return reply.redirect(`/${store.username}`, 307)
      return sendPage(reply, storePage(api, store, await api.links.listedOf(store.id)))
    },
  )
}
