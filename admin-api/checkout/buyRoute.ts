import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { SESSION_LIFETIME_MS } from '../../core/domain/session.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { UNPAID_COUNTED_MS, UNPAID_PER_OPEN } from '../../core/ports/store/sessions.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, minuteMs, refuse, takeForClient } from '../http/rateLimits.ts'
import { linkOfPage, pageAddressOf } from '../pages/linkOfPage.ts'
import { createSession } from '../sessions/createSession.ts'
import { checkoutUrlOf } from '../sessions/sessionView.ts'
import { sendNoCheckout } from './noCheckout.ts'

/** A client opens at most this part of the sessions that buyers of a store may have, so that a few clients don't fill them all. */
const CLIENT_SHARE = 0.01
/** However few sessions a store may have, a client opens this many of them. */
const MIN_CLIENT_SESSIONS = 10

/**
 * `POST /:username/:slug`: the Buy button of a `standard` link's page, a form that needs no script. Makes a payment session for the
 * link and leads the buyer to its checkout.
 */
export function buyRoute(app: FastifyInstance, api: Api): void {
  const { publicUrl, limits } = api
  // Strangers fill half of a store's open sessions at most: the other half stays the seller's own.
  const maxOpenSessionsPerStore = Math.ceil(api.maxOpenSessionsPerStore / 2)
  const maxPerClient = Math.max(MIN_CLIENT_SESSIONS, Math.ceil(maxOpenSessionsPerStore * CLIENT_SHARE))
  const buyersApi = { ...api, maxOpenSessionsPerStore }

  /** @throws `RATE_LIMIT_EXCEEDED` when a client has its share of a store's open sessions, or of those that end unpaid in a day */
  async function takeShare(request: FastifyRequest, reply: FastifyReply, storeId: string): Promise<void> {
    const shares = [
      { limit: maxPerClient, windowMs: SESSION_LIFETIME_MS },
      { limit: maxPerClient * UNPAID_PER_OPEN, windowMs: UNPAID_COUNTED_MS },
    ]
    for (const { limit, windowMs } of shares) {
      const taken = await takeForClient(api, request, `buy-${windowMs}:${storeId}`, limit, windowMs)
      if (!taken.ok) refuse(api, reply, taken, limit)
    }
  }

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
      await takeShare(request, reply, store.id)
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
