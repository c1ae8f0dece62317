import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Api } from '../deps.ts'
import type { Job } from '../feature.ts'
import { createAnswerCache } from './answerCache.ts'
import { bazaarRoutes } from './bazaarRoutes.ts'
import { discoverRoute } from './discoverRoute.ts'
import { guideRoutes } from './guideRoutes.ts'
import { openApiRoutes } from './openApiRoutes.ts'

/** How often it is looked for links that were sold or reviewed. */
const RECOUNT_MS = 2_000

/** What strangers find: all of it from one cache. */
export function discoveryRoutes(app: FastifyInstance, api: Api): void {
  const cache = createAnswerCache(api)
  app.addHook('onClose', async () => cache.close())
  discoverRoute(app, api, cache)
  bazaarRoutes(app, api, cache)
  guideRoutes(app, api, cache)
  openApiRoutes(app, api, cache)
}

/** Keeps figures, buyers and popularity of links up to date. A store that can't be asked now is asked again. */
export const recountJob: Job = async ({ discovery, figures, clock, log }, stopped) => {
  const recount = async () => {
    await figures.sumUp()
    return discovery.recount(clock.now())
  }
  while (!stopped.aborted) {
    const counted = await recount().catch((err: unknown) => {
      log.warn({ err }, 'could not count what links sold; trying again')
      return 0
    })
    if (counted === 0) await sleep(RECOUNT_MS, undefined, { signal: stopped, ref: false }).catch(() => {})
  }
}
