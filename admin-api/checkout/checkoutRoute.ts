import type { FastifyInstance } from 'fastify'
import { encode } from 'uqr'
import type { Payout } from '../../core/domain/link.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { SESSION_LIFETIME_MS, type Session } from '../../core/domain/session.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import { CheckoutPage } from '../../web/checkout/checkoutPage.ts'
import type { CheckoutOffer, CheckoutProps, QrPicture } from '../../web/checkout/state.ts'
import { html } from '../../web/html.ts'
import type { Api } from '../deps.ts'
import { refusePagesElsewhere } from '../http/rateLimits.ts'
import { sendPage } from '../http/sendPage.ts'
import { askedTerms } from '../sessions/askedTerms.ts'
import { type SecretQuery, secretQuery, sessionOf } from '../sessions/sessionAccess.ts'
import { checkoutUrlOf, payeeOf, type SessionView, viewOf } from '../sessions/sessionView.ts'
import { sendNoCheckout } from './noCheckout.ts'

/**
 * `/pay/checkout/:id?cs=…`: where a buyer pays a session. The page is nobody's frame and stays in no cache, its address goes
 * nowhere else, and its scripts take the secret out of the address bar before anything else.
 */
export function checkoutRoute(app: FastifyInstance, api: Api): void {
  const { serviceName, publicUrl } = api

  app.get<{ Params: { id: string }; Querystring: SecretQuery }>(
    '/pay/checkout/:id',
    { config: { answers404: true }, schema: { hide: true, querystring: secretQuery } },
    async (request, reply) => {
      reply
        .header('cache-control', 'private, no-store')
        // The page that opened this one is told how it ends; any other policy would cut the two off from each other.
        .header('cross-origin-opener-policy', 'unsafe-none')
      const { cs } = request.query
      if (cs === undefined)
        return sendNoCheckout(
          reply,
          api,
          200,
          'Open the checkout from the shop',
          'This address lacks the part that opens it.',
        )
      try {
        const { session } = await sessionOf(api, request, reply)
        const props = await propsOf(session, cs)
        const { item, merchant } = props.session
        const sum = `${props.sum.value} ${props.sum.currency}`
        return sendPage(reply, {
          name: 'checkout',
          title: `Pay ${sum} · ${item.title}`,
          description: `Pay ${sum} to ${merchant.displayName || merchant.username}.`,
          body: html`<${CheckoutPage} ...${props} serviceName=${serviceName} />`,
          isUnlisted: true,
          // Wallets put scripts into pages, and some of them write markup.
          hasTrustedTypes: false,
        })
      } catch (error) {
        if (!isTollgateError(error) || ![404, 429].includes(error.status)) throw error
        const title = error.status === 404 ? 'There is no such payment' : 'Too many looks at this payment'
        return sendNoCheckout(
          reply,
          api,
          error.status,
          title,
          error.status === 404 ? 'Go back to the shop and begin again.' : error.message,
        )
      }
    },
  )

  app.post<{ Params: { id: string }; Querystring: SecretQuery }>(
    '/pay/checkout/:id/cancel',
    {
      config: { answers404: true },
      schema: { hide: true, querystring: secretQuery },
      onRequest: async (request) => refusePagesElsewhere(api, request),
    },
    async (request, reply) => {
      const { session } = await sessionOf(api, request, reply)
      // What can't be canceled is shown as it stands.
      await api.sessions.cancel(session.id, api.clock.now())
      return reply.redirect(checkoutUrlOf(publicUrl, session.id, request.query.cs ?? ''), 303)
    },
  )

  async function propsOf(session: Session, secret: string): Promise<CheckoutProps> {
    const [view, payee] = await Promise.all([viewOf(api, session), payeeOf(api, session)])
    const checkoutUrl = checkoutUrlOf(publicUrl, session.id, secret)
    return {
      session: view,
      sum: sumOf(session, view),
      offers: payee === undefined ? [] : offersOf(api, session, payee.payout),
      nowMs: api.clock.now(),
      lifetimeMs: SESSION_LIFETIME_MS,
      checkoutUrl,
      qr: pictureOf(checkoutUrl),
      command: commandOf(publicUrl, view, secret),
    }
  }
}

function offersOf(api: Pick<Api, 'termsOf' | 'assets'>, session: Session, payout: Payout): CheckoutOffer[] {
  return askedTerms(session, api.termsOf({ price: session.price, payout })).flatMap(
    ({ network, asset: address, amount, payTo }): CheckoutOffer[] => {
      const asset = api.assets.find((one) => one.network === network && one.address === address)
      if (asset === undefined) return []
      return [{ network, asset, amount, payTo, amountText: formatAmount(BigInt(amount), asset.decimals, 2) }]
    },
  )
}

const sumOf = ({ asks }: Session, { item, currency }: SessionView): CheckoutProps['sum'] =>
  asks === null
    ? { value: item.amount, currency }
    : { value: formatAmount(asks.amountAtomic, asks.decimals, 2), currency: asks.symbol }

/** Up to a dollar `tollgate pay` asks nobody, and above it wants to be told. */
const commandOf = (publicUrl: string, { id, item }: SessionView, secret: string): string =>
  `tollgate pay -X POST --max ${item.amount} '${publicUrl}/api/v1/payments/${id}/pay?cs=${secret}'`

function pictureOf(text: string): QrPicture {
  const { data, size } = encode(text, { border: 0, ecc: 'M' })
  const rows = data.map((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : '')).join(''))
  return { path: rows.join(''), size }
}
