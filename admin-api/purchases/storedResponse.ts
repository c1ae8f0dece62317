import type { FastifyInstance } from 'fastify'
import { isSameAddress } from '../../core/domain/address.ts'
import { familyOf } from '../../core/domain/network.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { createChallenges, RecentChallenges } from '../../core/offers/challenge.ts'
import { SignIns, type SignInTarget, signInOf } from '../../core/offers/signIns.ts'
import { storedReply } from '../../core/payments/storedReply.ts'
import type { SignInProof } from '../../core/x402/signIn.ts'
import { signInName, signInOffer } from '../../core/x402/signIn.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, MINUTE_MS } from '../http/callers.ts'
import { type IdParams, idOrNotFound, idParams } from '../http/ownership.ts'
import { sendReply } from '../http/rawReplies.ts'
import { respond } from '../http/responses.ts'

const unknown = 'No purchase has this id.'

/** `GET /api/purchases/:id/response` lets the buyer read the response of a purchase again, by a signature of the wallet that paid. */
export function storedResponseRoute(app: FastifyInstance, api: Api): void {
  const signIns = new SignIns(api)
  const recent = new RecentChallenges()

  const targetOf = ({ id, network }: Purchase): SignInTarget => ({
    id,
    uri: `${api.publicUrl}/api/purchases/${id}/response`,
    statement: 'Sign in to read what you have bought. This costs nothing and moves no money.',
    networks: [network],
  })

  /** The 402 of x402, so that its clients sign in. It asks for no payment. */
  const offerTo = (target: SignInTarget) =>
    createChallenges({ price: '0' }, [], {
      describe: () => ({
        resource: {
          url: target.uri,
          description: 'The response of a purchase',
          mimeType: 'application/json',
          serviceName: api.serviceName,
        },
        fresh: () => ({ [signInName]: signInOffer(signIns.offer(target), target.networks) }),
      }),
      legacyBody: false,
      acceptV1: false,
      recent,
    }).v2

  app.get<{ Params: IdParams }>(
    '/api/purchases/:id/response',
    {
      config: { anyOrigin: true },
      exposeHeadRoute: false,
      onRequest: limitPerClient(api, 'stored-response', api.limits.storePerMinute, MINUTE_MS),
      schema: {
        summary: 'Read the response of a purchase again',
        description:
          'Returns the response of a purchase while it is stored, to the wallet that has paid. A request without the header SIGN-IN-WITH-X gets a 402 with an empty `accepts` and the x402 extension `sign-in-with-x`. Sign its text, and repeat the request with the header. A purchase that is owed back, was refunded or has left the chain has no response. The `PAYMENT-RESPONSE` has no signed receipt, which `/api/v1/purchases/:id/receipt` returns.',
        params: idParams,
        response: respond(
          {
            200: { description: 'The response as the gateway first sent it, without a signed receipt.' },
            402: { type: 'object', description: 'The x402 version 2 offer to sign in.' },
          },
          [400, 401, 403, 404, 410, 429, 503],
        ),
      },
    },
    async (request, reply) => {
      const purchase = await api.purchases.find(idOrNotFound(request.params.id, 'NOT_FOUND', unknown))
      if (purchase === undefined) throw new TollgateError('NOT_FOUND', unknown)
      const target = targetOf(purchase)
      const header = request.headers[signInName]
      if (typeof header !== 'string') return sendReply(reply, offerTo(target))
      const proof = signInOf(header)
      await admit(signIns, proof, target, purchase)
      const { record, link, response } = await storedOf(api, purchase)
      await signIns.use(proof).catch(refuse)
      if (record.state === 'settled')
        reply.raw.once('finish', () => api.payments.deliver(record, 'delivered'))
      return sendReply(reply, storedReply(record, link, response, api.notes, { version: 2, signing: null }))
    },
  )
}

/** @throws `INVALID_SIGNATURE` or `NONCE_EXPIRED` for a wrong sign-in; `FORBIDDEN` for a wallet that has not paid */
async function admit(
  signIns: SignIns,
  proof: SignInProof,
  target: SignInTarget,
  { network, buyerWallet }: Purchase,
): Promise<void> {
  const wallet = await signIns.prove(proof, target).catch(refuse)
  if (isSameAddress(familyOf(network), wallet.address, buyerWallet)) {
    if (wallet.network === null || wallet.network === network) return
  }
  throw new TollgateError('FORBIDDEN', 'Expected the wallet that has paid for the purchase, got another one.')
}

/** Turns a refused sign-in into an error of the marketplace API. */
function refuse(error: unknown): never {
  if (!isTollgateError(error) || error.code !== 'invalid_sign_in') throw error
  const isOver = error.reason === 'invalid_siwx_nonce' || error.reason === 'invalid_siwx_expired'
  const again = 'Request the address without the header for a new offer, and sign it.'
  const message = error.message.replace('Sign the offer of this response.', again)
  throw new TollgateError(isOver ? 'NONCE_EXPIRED' : 'INVALID_SIGNATURE', message, { reason: error.reason! })
}

/** @throws `RESPONSE_GONE` if nothing is stored for the purchase */
async function storedOf(api: Api, { status, paymentKey, linkId }: Purchase) {
  if (status !== 'settled' && status !== 'delivered') throw new TollgateError('RESPONSE_GONE', why[status])
  const record = await api.payments.find(paymentKey)
  const link = linkId === null ? undefined : await api.links.find(linkId)
  const response = record?.hasResponse ? await api.payments.responseOf(record) : undefined
  if (record === undefined || link === undefined || response === undefined)
    throw new TollgateError('RESPONSE_GONE', 'The response of this purchase is no longer stored.')
  return { record, link, response }
}

const why = {
  refund_due: 'The seller owes you a refund for this purchase, so it has no response.',
  refunded: 'The seller has refunded this purchase, so it has no response.',
  reorged: 'The payment of this purchase has left the chain, so it has no response.',
} as const
