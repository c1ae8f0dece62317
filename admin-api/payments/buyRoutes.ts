import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { canonicalAddress } from '../../core/domain/address.ts'
import { familyOf } from '../../core/domain/network.ts'
import { SESSION_LIFETIME_MS } from '../../core/domain/session.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { UNPAID_COUNTED_MS, UNPAID_PER_OPEN } from '../../core/ports/store/sessions.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, MINUTE_MS, refuse, refusePagesElsewhere, takeForClient } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { exactly, field, ok, respond, success } from '../http/responses.ts'
import { validationError } from '../http/validation.ts'
import { linkOfPage, pageAddressOf } from '../market/linkPage.ts'
import { sendNoCheckout } from './checkoutRoutes.ts'
import { createSession } from './createSession.ts'
import { checkoutUrlOf } from './sessionView.ts'

/** The part of a store's sessions for buyers that a single client can open, so that a few clients cannot use all of them. */
const CLIENT_SHARE = 0.01
/** Number of sessions that a single client can always open, even if a store may have only a few. */
const MIN_CLIENT_SESSIONS = 10

/**
 * `POST /:username/:slug` is the Buy button on the page of a `standard` link. The button is a form that works without scripts. The
 * route creates a payment session for the link and redirects the buyer to its checkout.
 */
export function buyRoute(app: FastifyInstance, api: Api): void {
  const { publicUrl, limits } = api
  // Buyers can open at most half of a store's sessions. The other half is for the seller.
  const maxOpenSessionsPerStore = Math.ceil(api.maxOpenSessionsPerStore / 2)
  const maxPerClient = Math.max(MIN_CLIENT_SESSIONS, Math.ceil(maxOpenSessionsPerStore * CLIENT_SHARE))
  const buyersApi = { ...api, maxOpenSessionsPerStore }

  /**
   * @throws `RATE_LIMIT_EXCEEDED` if a client has its share of a store's open sessions, or of the sessions that end unpaid in a day
   */
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
      onRequest: limitPerClient(api, 'buy', limits.paymentAttemptsPerMinute, MINUTE_MS),
    },
    async (request, reply) => {
      const { username, slug } = request.params
      const link = await linkOfPage(api, username, slug)
      const store = link && (await api.stores.find(link.storeId))
      if (link?.linkType !== 'standard' || store === undefined)
        throw new TollgateError('LINK_NOT_FOUND', 'Nothing is for sale at this address.')
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
        // The error's message is for the seller, so the buyer gets another one.
        const title = "You can't buy this item right now"
        const about =
          'The seller cannot accept payments for this item at the moment. You were not charged. Try again later.'
        return sendNoCheckout(reply, api, error.status, title, about)
      }
    },
  )
}

/**
 * Maximum number of requests per client and minute. A payment needs one, and a buyer who chooses between wallets needs a few more.
 */
const READS_PER_MINUTE = 60

const payerQuery = {
  type: 'object',
  required: ['network', 'asset', 'address'],
  properties: {
    network: { type: 'string', description: 'The network as a CAIP-2 id, `solana:…`.' },
    asset: { type: 'string', description: "The token's mint." },
    address: { type: 'string', description: 'The address of the wallet, in base58.' },
  },
} as const

/**
 * `GET /api/payer` returns the data that a browser's Solana wallet needs before it signs. The wallet does not provide these data,
 * and the address of the node is not public.
 */
export function payerRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: Infer<typeof payerQuery> }>(
    '/api/payer',
    {
      onRequest: [
        async (request) => refusePagesElsewhere(api, request),
        limitPerClient(api, 'payer', READS_PER_MINUTE, MINUTE_MS),
      ],
      schema: {
        summary: 'Read what a Solana wallet needs to pay',
        description:
          "Returns a recent block hash, and the wallet's balance of a token that this service accepts.",
        querystring: payerQuery,
        response: respond(
          {
            200: success(
              exactly({
                recentBlockhash: field.text(),
                balanceAtomic: field.text('The balance in the smallest unit of the token.'),
              }),
            ),
          },
          [400, 403, 429, 503],
        ),
      },
    },
    async ({ query }) => {
      const { network, address } = query
      const asset = api.assets.find((one) => one.network === network && one.address === query.asset)
      if (asset === undefined || familyOf(network) !== 'solana')
        throw validationError([
          { path: 'asset', code: 'not_taken', message: 'Expected a Solana token that this service accepts.' },
        ])
      if (canonicalAddress('solana', address) === undefined)
        throw new TollgateError('INVALID_ADDRESS', 'Expected a Solana address: 32 bytes in base58.')
      const state = await api.payers.read(asset, address)
      if (state === undefined)
        throw new TollgateError('CHAIN_UNAVAILABLE', 'No Solana node is responding. Try again in a moment.')
      return ok({ recentBlockhash: state.recentBlockhash, balanceAtomic: String(state.balanceAtomic) })
    },
  )
}
