import type { FastifyInstance } from 'fastify'
import type { Store } from '../../core/domain/store.ts'
import { html } from '../../web/html.ts'
import { StorePage } from '../../web/site/storePage.ts'
import { cardOfStore, cardUrl } from '../cards/card.ts'
import type { Api } from '../deps.ts'
import type { Answer, AnswerCache } from '../discovery/answerCache.ts'
import { addressOf } from '../discovery/described.ts'
import { sendKept } from '../discovery/sendKept.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { toPublicSocials } from '../socials/socialsView.ts'
import { findStore } from '../stores/storeRoute.ts'
import { answerNotFound, keptPage } from './keptPage.ts'
import { callsOf, offsetIn, resultsOf } from './results.ts'
import { reviewsOf, SHOWN_REVIEWS } from './reviewsOf.ts'

const PAGE_LINKS = 50
/** As many as a store has by default: whose calls are counted together. */
const MAX_LINKS = 1_000

/** `/:username`: a store's page for a browser. */
export function storePageRoute(app: FastifyInstance, api: Api, cache: AnswerCache): void {
  app.get<{ Params: { username: string }; Querystring: Readonly<Record<string, unknown>> }>(
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
      if (store === undefined) return answerNotFound(request, reply, api)
      if (store.username !== username) return reply.redirect(`/${store.username}`, 307)
      const offset = offsetIn(request.query['offset'])
      const answer = await cache.of(`store ${username} ${offset}`, () => makePage(api, store, offset))
      return sendKept(request, reply, answer, 'text/html; charset=utf-8')
    },
  )
}

async function makePage(api: Api, store: Store, offset: number): Promise<Answer> {
  const { serviceName, publicUrl } = api
  const { username, displayName, bio } = store
  const query = { sort: 'popular', username } as const
  const [all, { links, total }, reviews] = await Promise.all([
    api.discovery.search({ ...query, limit: MAX_LINKS, offset: 0 }),
    api.discovery.search({ ...query, limit: PAGE_LINKS, offset }),
    api.reviews.ofStore(store.id, { limit: SHOWN_REVIEWS, offset: 0 }),
  ])
  const props = {
    ...{ serviceName, store, socials: toPublicSocials(store.socials) },
    ...{ links: await resultsOf(api, links), total, limit: PAGE_LINKS, offset },
    calls: await callsOf(api, all.links),
    reviews: reviewsOf(reviews, api.clock.now(), all.links),
  }
  return keptPage(
    {
      name: 'site',
      title: `${displayName} (@${username}) · ${serviceName}`,
      description: bio === '' ? `APIs of ${displayName}, paid per call.` : bio,
      canonicalUrl: `${publicUrl}/${username}`,
      cardUrl: cardUrl(api, `/${username}`, cardOfStore(api, store)),
      isUnlisted: offset > 0,
      hasForeignImages: store.avatarUrl !== '',
      body: html`<${StorePage} ...${props} />`,
    },
    // The store itself stands in it, too: its name may change while it has no links. Its calls are those of all of them.
    [...all.links.map(addressOf), `${username}/`],
  )
}
