import type { FastifyInstance } from 'fastify'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { linkOfPage, pageAddressOf } from '../pages/linkOfPage.ts'
import { createSession } from '../sessions/createSession.ts'
import { checkoutUrlOf } from '../sessions/sessionView.ts'
import { sendNoCheckout } from './noCheckout.ts'

/**
 * `POST /:username/:slug`: the Buy button of a `standard` link's page, a form that needs no script. Makes a payment session for the
 * link and leads the buyer to its checkout.
 */
export function buyRoute(app: FastifyInstance, api: Api): void {
  const { publicUrl, limits } = api
  // Strangers fill half of a store's open sessions at most: the other half stays the seller's own.
  const buyersApi = { ...api, maxOpenSessionsPerStore: Math.ceil(api.maxOpenSessionsPerStore / 2) }

  app.post<{ Params: { username: string; slug: string } }>(
    '/:username/:slug',
    {
      config: { answers404: true },
      schema: { hide: true },
      onRequest: limitPerClient(api, 'buy', limits.paymentAttemptsPerMinute, minuteMs),
    },
    async (request, reply) => {
      const { username, slug } = request.params
      const link = await linkOfPage(api, username, slug)
      const store = link && (await api.stores.find(link.storeId))
      if (link?.linkType !== 'standard' || store === undefined)
        throw new TollgateError('LINK_NOT_FOUND', 'There is nothing to buy at this address.')
      const cancelUrl = `${publicUrl}/${pageAddressOf(link)}`
      try {
        const { session, clientSecret } = await createSession(buyersApi, store, {
          linkId: link.id,
          cancelUrl,
        })
        return reply.redirect(checkoutUrlOf(publicUrl, session.id, clientSecret), 303)
      } catch (error) {
        if (!isTollgateError(error)) throw error
        // Its message is for the seller.
        const title = "This can't be bought right now"
        const about =
          'The seller can take no payment for it at the moment. Try again later; nothing was charged.'
        return sendNoCheckout(reply, api, error.status, title, about)
      }
    },
  )
}
