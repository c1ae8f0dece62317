import { hash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Purchase } from '../../core/domain/purchase.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { ReceiptSigning } from '../../core/payments/chargeReceipt.ts'
import type { Api } from '../deps.ts'
import { identify, MINUTE_MS, refuse, takeForClient } from '../http/callers.ts'
import { type IdParams, idOrNotFound, idParams, ownPurchase } from '../http/ownership.ts'
import { exactly, field, ok, respond, success } from '../http/responses.ts'

const receiptSchema = exactly({
  format: { const: 'eip712' },
  payload: exactly({
    version: { const: 1 },
    network: field.text('CAIP-2.'),
    resourceUrl: field.text('The address of the link or payment session.'),
    payer: field.text("The buyer's wallet."),
    issuedAt: { ...field.count, description: 'Time of the purchase in seconds since 1970.' },
    transaction: field.text('Hash (EVM) or signature (Solana).'),
  }),
  signature: field.text('65 bytes in hex with 0x.'),
})

/**
 * `/api/v1/purchases/:id/receipt`: the signed receipt of a purchase, for its seller and its buyer. It names the transaction, which
 * both of them know.
 */
export function receiptRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Params: IdParams }>(
    '/api/v1/purchases/:id/receipt',
    {
      schema: {
        summary: 'Download a signed receipt',
        description:
          'Returns the receipt of a delivered purchase, signed by this gateway (x402 extension `offer-receipt`). A seller sends the API key. A buyer sends the review token of the paid response in the header X-Review-Token. The key that signs is in /.well-known/did.json. `tollgate verify-receipt` checks the receipt.',
        security: [{ apiKey: [] }, { reviewToken: [] }],
        params: idParams,
        response: respond({ 200: success(receiptSchema) }, [401, 403, 404, 409, 429]),
      },
    },
    async (request, reply) => {
      const purchase = await purchaseOf(api, request, reply)
      if (purchase.status !== 'delivered')
        throw new TollgateError(
          'CONFLICT',
          `Expected a purchase that was delivered, got one that is ${purchase.status}. Only a delivered purchase has a receipt.`,
        )
      reply.header('content-disposition', `attachment; filename="receipt-${purchase.id}.json"`)
      return ok(await receiptOf(api, purchase))
    },
  )
}

/** @throws `NOT_FOUND`, `UNAUTHORIZED`, `RATE_LIMIT_EXCEEDED` */
async function purchaseOf(
  api: Api,
  request: FastifyRequest<{ Params: IdParams }>,
  reply: FastifyReply,
): Promise<Purchase> {
  const { id } = request.params
  const token = request.headers['x-review-token']
  if (typeof token !== 'string') {
    await identify(api, request, reply)
    return ownPurchase(api, request, id)
  }
  reply.header('cache-control', 'no-store')
  const unknown = 'No purchase has this id and review token.'
  const purchase = await api.purchases.find(idOrNotFound(id, 'NOT_FOUND', unknown))
  if (purchase !== undefined && isTokenOf(purchase, token)) return purchase
  const { badKeyPerMinute } = api.limits
  const taken = await takeForClient(api, request, 'bad-secret', badKeyPerMinute, MINUTE_MS)
  if (!taken.ok) refuse(api, reply, taken, badKeyPerMinute)
  throw new TollgateError('NOT_FOUND', unknown)
}

function isTokenOf({ reviewTokenHash }: Purchase, token: string): boolean {
  const [given, kept] = [Buffer.from(hash('sha256', token)), Buffer.from(reviewTokenHash)]
  return given.length === kept.length && timingSafeEqual(given, kept)
}

async function receiptOf(api: Api, purchase: Purchase) {
  const { network, buyerWallet: payer, txHash, amountAtomic, id } = purchase
  const signing = new ReceiptSigning(api.receiptSigner, await resourceUrlOf(api, purchase), true)
  const amount = amountAtomic.toString()
  return signing.sign({ success: true, network, payer, transaction: txHash ?? '', amount }, id)
}

/** The address that was sold, as in its offer. A link that was renamed since has its current address. */
async function resourceUrlOf(api: Api, { sessionId, linkId, storeId }: Purchase): Promise<string> {
  if (sessionId !== null) return `${api.publicUrl}/api/v1/payments/${sessionId}/pay`
  const [link, store] = await Promise.all([api.links.find(linkId!), api.stores.find(storeId)])
  const { isStealth, privateSlug, slug } = link!
  return `${api.publicUrl}/api/link/${store!.username}/${isStealth ? privateSlug : slug}`
}
