import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { debtorOf } from '../../core/domain/ledger.ts'
import type { Session } from '../../core/domain/session.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { PresentedPayment } from '../../core/payments/payments.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { AskedLately, type Challenges, createChallenges } from '../../core/x402/challenge.ts'
import { receiptHeaders } from '../../core/x402/header.ts'
import type { Offer } from '../../core/x402/offers.ts'
import { payableChallenges } from '../../core/x402/payable.ts'
import { presentPayment } from '../../core/x402/presentPayment.ts'
import { failureReceipt, refusedReply, unread } from '../../core/x402/refusedPayment.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { idParams } from '../http/ids.ts'
import { minuteMs, refuse, takeForClient } from '../http/rateLimits.ts'
import { answers, success } from '../schema/answers.ts'
import { askedTerms } from './askedTerms.ts'
import { notForSale, type Paid, paySession } from './paySession.ts'
import { bySecretOrKey, originOfSession, secretQuery, sessionOf } from './sessionAccess.ts'
import { payeeOf, sessionSchema, viewOf } from './sessionView.ts'

/** `…/pay`: a session is paid by x402 as a link's call is, and what is bought is the session's confirmation. */
export function payRoute(app: FastifyInstance, api: Api): void {
  const notes = createPurchaseNotes(api.sealer, '_svc')

  app.post(
    '/api/v1/payments/:id/pay',
    {
      config: { originOf: (url) => originOfSession(api, url) },
      schema: {
        summary: 'Pay a session',
        security: bySecretOrKey,
        description:
          'By x402 version 2: without a payment the 402 with `accepts`, the same JSON in the header PAYMENT-REQUIRED; then the same request with PAYMENT-SIGNATURE. A payment that is read and refused is answered 402 with a fresh offer, one that is none, or cannot be decoded, 400. The same payment sent again gets the same answer, without the review token: it can be read on chain by then. At most 20 payments a minute from one client.',
        params: idParams,
        querystring: secretQuery,
        response: answers(
          {
            200: success(sessionSchema),
            402: {
              type: 'object',
              description:
                'The offer of x402 version 2. After a payment that was read and refused, a fresh one beside the `error` of every refusal.',
            },
          },
          400,
          401,
          404,
          409,
          429,
          503,
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
        return send402(reply, challenges.v2)
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
        // It may have ended meanwhile, by this very payment.
        const isForSale =
          code === 'invalid_payment' &&
          (await notForSale(api, await api.sessions.find(session.id))) === undefined
        const refused = refusedReply(error, request.id, isForSale ? challenges : undefined, 2, '')
        if (refused === undefined) throw error
        return send402(reply, refused)
      }
      const { headers } = notes.of(paid.purchaseId, false)
      // A seller who pays fees has bought nothing that could be reviewed.
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

/** Sessions are asked once or twice. */
const lately = new AskedLately()

function challengesOf(
  api: Api,
  { id, title, description, price }: Session,
  all: readonly Offer[],
): Challenges {
  const resource = {
    // Without the client secret: buyers hand this on to whoever settles.
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
        lately,
      }),
    () => [],
  )
}

async function countAttempt(api: Api, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { paymentAttemptsPerMinute: limit } = api.limits
  const taken = await takeForClient(api, request, 'session-pay', limit, minuteMs)
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

function setHeaders(reply: FastifyReply, flat: readonly string[]): void {
  for (let i = 0; i < flat.length; i += 2) reply.header(flat[i]!, flat[i + 1]!)
}

function send402(reply: FastifyReply, { status, headers, body }: Challenges['v2']): FastifyReply {
  setHeaders(reply, headers)
  return reply
    .code(status)
    .serializer(String)
    .send(Buffer.from(String(body), 'latin1'))
}
