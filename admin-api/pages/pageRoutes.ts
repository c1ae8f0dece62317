import type { FastifyInstance } from 'fastify'
import type { Api } from '../deps.ts'
import { createAnswerCache } from '../discovery/answerCache.ts'
import { linkPageRoute } from './linkPageRoute.ts'
import { marketPageRoute } from './marketPageRoute.ts'
import { storePageRoute } from './storePageRoute.ts'

/** The pages that people find things on. Whole HTML, the same for everybody, kept for a minute as discovery's answers. */
export function pageRoutes(app: FastifyInstance, api: Api): void {
  const cache = createAnswerCache(api)
  app.addHook('onClose', async () => cache.close())
  marketPageRoute(app, api, cache)
  storePageRoute(app, api, cache)
  linkPageRoute(app, api, cache)
}
