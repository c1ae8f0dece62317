import type { FastifyInstance } from 'fastify'
import type { Api } from '../deps.ts'
import { isKnown } from '../discovery/sendKept.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { answerNotFound } from '../pages/keptPage.ts'
import { publicLink } from '../stores/storeHealthRoute.ts'
import { findStore } from '../stores/storeRoute.ts'
import { type Card, cardOfLink, cardOfMarket, cardOfStore, cardVersion } from './card.ts'
import { createCardPainter } from './cardPainter.ts'

/** Services that show links ask from few addresses, and once for a picture. */
const CARDS_PER_MINUTE = 300

/** `card.png` below the marketplace, a store and a link: the picture of the page, where strangers may see the page. */
export function cardRoutes(app: FastifyInstance, api: Api): void {
  const painter = createCardPainter()
  app.addHook('onClose', () => painter.close())

  const add = (path: string, find: (at: { username: string; slug: string }) => Promise<Card | undefined>) =>
    app.get<{ Params: { username: string; slug: string } }>(
      path,
      {
        config: { answers404: true, anyOrigin: true },
        schema: { hide: true },
        onRequest: limitPerClient(api, 'card', CARDS_PER_MINUTE, minuteMs),
      },
      async (request, reply) => {
        const card = await find(request.params)
        if (card === undefined) return answerNotFound(request, reply, api)
        reply.header('cache-control', 'public, max-age=3600')
        // By what it says: whoever has it is told so without another one being painted.
        const etag = `W/"${cardVersion(card)}"`
        if (isKnown(request.headers['if-none-match'], etag))
          return reply.header('etag', etag).code(304).send()
        const png = await painter.paint(card)
        return reply
          .header('etag', etag)
          .header('cross-origin-resource-policy', 'cross-origin')
          .type('image/png')
          .send(png)
      },
    )

  add('/card.png', async () => cardOfMarket(api))
  add('/:username/card.png', async ({ username }) => {
    const store = await findStore(api, username)
    return store && cardOfStore(api, store)
  })
  add('/:username/:slug/card.png', async ({ username, slug }) => {
    const link = await publicLink(api, username, slug)
    return link && cardOfLink(api, link, await api.stores.find(link.storeId))
  })
}
