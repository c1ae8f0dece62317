import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { debtorOf } from '../../core/domain/ledger.ts'
import type { Session } from '../../core/domain/session.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import { type Challenges, createChallenges, RecentChallenges } from '../../core/offers/challenge.ts'
import type { Offer } from '../../core/offers/offers.ts'
import { payableChallenges } from '../../core/offers/payableChallenges.ts'
import { presentPayment } from '../../core/offers/presentedPayment.ts'
import { failureReceipt, refusedReply, unread } from '../../core/offers/refusedPayment.ts'
import type { PresentedPayment } from '../../core/payments/payments.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { receiptHeaders } from '../../core/x402/header.ts'
import type { Api } from '../deps.ts'
import { MINUTE_MS, refuse, takeForClient } from '../http/callers.ts'
import { idParams } from '../http/ownership.ts'
import { sendReply, setHeaders } from '../http/rawReplies.ts'
import { ok, respond, success } from '../http/responses.ts'
import { notForSale, type Paid, paySession } from './paySession.ts'
import { bySecretOrKey, originOfSession, secretQuery, sessionOf } from './sessionAccess.ts'
import { askedTerms, payeeOf, sessionSchema, viewOf } from './sessionView.ts'

/** `…/pay` sells the confirmation of a session by x402, as if it were a call of a link. */
export function payRoute(app: FastifyInstance, api: Api): void {
  const notes = createPurchaseNotes(api.sealer, '_svc')

  app.post(
    '/api/v1/payments/:id/pay',
    {
      config: { originOf: (url) => originOfSession(api, url) },
      schema: {
        summary: 'Pay a payment session',
        security: bySecretOrKey,
        description:
          'Pays a payment session by x402 version 2. A request without a payment gets a 402 with `accepts`, and the same JSON in the header PAYMENT-REQUIRED. Then repeat the request with the header PAYMENT-SIGNATURE. If the payment is refused, the response is a 402 with a new offer. If the payment cannot be decoded, the response is a 400. If you send the same payment again, the response is the same, but without the review token, because the payment is then public on chain. One client may send at most 20 payments a minute.',
        params: idParams,
        querystring: secretQuery,
        response: respond(
          {
            200: success(sessionSchema),
            402: {
              type: 'object',
              description:
                'The x402 version 2 offer. After a refused payment, the response has a new offer and the `error`.',
            },
          },
          [400, 401, 404, 409, 429, 503],
        ),
      },
    },
    async (request, reply) => {
      const { session } = await sessionOf(api, request, reply)
      const header = request.headers['payment-signature']
      const offers = await offersOf(api, session)
      const challenges = challengesOf(api, session, offers)
      if (typeof header !== 'string') {
        const refused = await notForSale(api, session)
        if (refused !== undefined) throw refused
        await challenges.looking
        return sendReply(reply, challenges.v2)
      }
      let presented: PresentedPayment | null = null
      let paid: Paid
      try {
        await countAttempt(api, request, reply)
        presented = await presentPayment(header, 2, {
          offers,
          payments: api.payments,
          acceptV1: false,
          publicUrl: api.publicUrl,
          host: () => request.headers.host,
        })
        paid = await paySession(api, session, presented)
      } catch (error) {
        const { code, status } = isTollgateError(error) ? error : { code: 'internal_error', status: 500 }
        const network = challenges.network ?? api.assets[0]?.network
        setHeaders(reply, failureReceipt({ ...unread(2), payment: presented }, error, status, network))
        // The session may have ended meanwhile because of this same payment.
        const isForSale =
          code === 'invalid_payment' &&
          (await notForSale(api, await api.sessions.find(session.id))) === undefined
        const refused = refusedReply(error, request.id, isForSale ? challenges : undefined, 2, '')
        if (refused === undefined) throw error
        return sendReply(reply, refused)
      }
      const { headers } = notes.of(paid.purchaseId, false)
      // A seller who pays fees has bought nothing to review.
      const hasReview = paid.isOwn && debtorOf(session.storeId) === undefined
      setHeaders(reply, [...receiptOf(paid), ...(hasReview ? headers : ['X-Purchase-Id', paid.purchaseId])])
      const after = (await api.sessions.find(session.id)) ?? session
      return ok(await viewOf(api, after))
    },
  )
}

async function offersOf(api: Api, session: Session): Promise<readonly Offer[]> {
  const payee = await payeeOf(api, session)
  if (payee === undefined) return []
  return api
    .offersOf({ price: session.price, payout: payee.payout })
    .flatMap((offer) => askedTerms(session, [offer.terms]).map((terms) => ({ ...offer, terms })))
}

/** Remembers recent queries, because each session is queried once or twice. */
const lately = new RecentChallenges()

function challengesOf(
  api: Api,
  { id, title, description, price }: Session,
  all: readonly Offer[],
): Challenges {
  const resource = {
    // The URL has no client secret, because buyers send it to their facilitator.
    url: `${api.publicUrl}/api/v1/payments/${id}/pay`,
    description: description === '' ? title : `${title}: ${description}`,
    mimeType: 'application/json',
    serviceName: api.serviceName,
  }
  const open = all.filter(({ isClosed }) => !isClosed)
  return payableChallenges(
    open,
    (payable) =>
      createChallenges({ price }, payable, {
        describe: () => ({ resource }),
        legacyBody: false,
        acceptV1: false,
        recent: lately,
      }),
    () => [],
  )
}

async function countAttempt(api: Api, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { paymentAttemptsPerMinute: limit } = api.limits
  const taken = await takeForClient(api, request, 'session-pay', limit, MINUTE_MS)
  if (!taken.ok) refuse(api, reply, taken, limit)
}

const receiptOf = (paid: Paid): readonly string[] =>
  receiptHeaders(2, {
    success: true,
    transaction: paid.transaction,
    network: paid.network,
    payer: paid.payer,
    amount: paid.amountAtomic.toString(),
  })
