import type { FastifyInstance, FastifyReply } from 'fastify'
import { encode } from 'uqr'
import type { Payout } from '../../core/domain/link.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { SESSION_LIFETIME_MS, type Session } from '../../core/domain/session.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import { CheckoutPage, NoCheckoutPage } from '../../web/checkout/checkoutPage.ts'
import type { CheckoutOffer, CheckoutProps, QrImage } from '../../web/checkout/state.ts'
import { html } from '../../web/html.ts'
import { readWidget } from '../../web/render/assets.ts'
import type { Api } from '../deps.ts'
import { refusePagesElsewhere } from '../http/callers.ts'
import { sendAsset, sendPage } from '../http/pages.ts'
import { type SecretQuery, secretQuery, sessionOf } from './sessionAccess.ts'
import { askedTerms, checkoutUrlOf, payeeOf, type SessionView, viewOf } from './sessionView.ts'

/** How long shops may cache the widget, in seconds. The time is short, because the widget's URL never changes. */
const MAX_AGE_SECONDS = 300

/** `/widget.js` is the script with which a shop's page opens the checkout. */
export function widgetRoute(app: FastifyInstance): void {
  app.get('/widget.js', { config: { anyOrigin: true }, schema: { hide: true } }, async (request, reply) => {
    const widget = readWidget()
    reply
      .header('cache-control', `public, max-age=${MAX_AGE_SECONDS}`)
      .header('etag', widget.etag)
      .header('cross-origin-resource-policy', 'cross-origin')
    if (request.headers['if-none-match']?.includes(widget.etag)) return reply.code(304).send()
    return sendAsset(request, reply, widget)
  })
}

/** Sends a checkout page that explains why a payment is not possible. */
export const sendNoCheckout = (
  reply: FastifyReply,
  { serviceName }: Pick<Api, 'serviceName'>,
  status: number,
  title: string,
  about: string,
): FastifyReply =>
  sendPage(reply.code(status), {
    name: 'checkout',
    title,
    description: about,
    body: html`<${NoCheckoutPage} serviceName=${serviceName} title=${title} about=${about} />`,
    isUnlisted: true,
    hasTrustedTypes: false,
  })

/**
 * `/pay/checkout/:id?cs=…` is the page on which a buyer pays a session. It cannot be framed or cached, and it sends no referrer.
 * Its scripts first remove the secret from the address bar.
 */
export function checkoutRoute(app: FastifyInstance, api: Api): void {
  const { serviceName, publicUrl } = api

  app.get<{ Params: { id: string }; Querystring: SecretQuery }>(
    '/pay/checkout/:id',
    { config: { answers404: true }, schema: { hide: true, querystring: secretQuery } },
    async (request, reply) => {
      reply
        .header('cache-control', 'private, no-store')
        // This policy lets the page that opened the checkout receive the outcome. With any other, the two pages could not
        // communicate.
        .header('cross-origin-opener-policy', 'unsafe-none')
      const { cs } = request.query
      if (cs === undefined)
        return sendNoCheckout(
          reply,
          api,
          200,
          'Open the checkout from the shop',
          'This URL has no client secret (cs), which opens the checkout.',
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
          // Wallets inject scripts into pages, and some of these write markup.
          hasTrustedTypes: false,
        })
      } catch (error) {
        if (!isTollgateError(error) || ![404, 429].includes(error.status)) throw error
        const title =
          error.status === 404 ? 'This payment does not exist' : 'Too many requests for this payment'
        return sendNoCheckout(
          reply,
          api,
          error.status,
          title,
          error.status === 404 ? 'Go back to the shop and start again.' : error.message,
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
      // If the session cannot be canceled, the checkout shows its current state.
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
      qr: imageOf(checkoutUrl),
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

/**
 * The command with which a buyer pays a session. `tollgate pay` pays up to a dollar without confirmation, and more only with --max.
 */
const commandOf = (publicUrl: string, { id, item }: SessionView, secret: string): string =>
  `tollgate pay -X POST --max ${item.amount} '${publicUrl}/api/v1/payments/${id}/pay?cs=${secret}'`

function imageOf(text: string): QrImage {
  const { data, size } = encode(text, { border: 0, ecc: 'M' })
  const rows = data.map((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : '')).join(''))
  return { path: rows.join(''), size }
}
