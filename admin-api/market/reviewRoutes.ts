import { hash, randomUUID, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Purchase } from '../../core/domain/purchase.ts'
import { REVIEWABLE_MS, type Review, ratingOf } from '../../core/domain/review.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ReviewPage } from '../../core/ports/store/reviews.ts'
import type { Api } from '../deps.ts'
import { HOUR_MS, limitPerClient, MINUTE_MS } from '../http/callers.ts'
import { bodyField, type Infer } from '../http/fields.ts'
import { isUuid } from '../http/ownership.ts'
import { exactly, field, isoTime, listOf, respond } from '../http/responses.ts'
import { findLink, findStore } from './storeRoutes.ts'

const reviewBody = {
  type: 'object',
  additionalProperties: false,
  required: ['purchaseId', 'wallet', 'token', 'positive'],
  properties: {
    purchaseId: {
      type: 'string',
      maxLength: 64,
      description: 'The id of the purchase, from the paid response.',
    },
    wallet: { ...bodyField.wallet, description: 'The wallet that paid for the purchase.' },
    token: {
      type: 'string',
      minLength: 1,
      maxLength: 128,
      description: 'The `reviewToken` from the paid response.',
    },
    positive: { type: 'boolean' },
    comment: bodyField.comment,
  },
} as const

const pageQuery = {
  type: 'object',
  required: ['username'],
  properties: {
    username: { type: 'string', maxLength: 64, description: 'The username of the store.' },
    slug: {
      type: 'string',
      maxLength: 64,
      description: 'The slug of the link. Default: all public links of the store.',
    },
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
    offset: { type: 'integer', minimum: 0, maximum: 100_000, default: 0 },
  },
} as const

const reviewList = exactly({
  reviews: listOf(
    exactly({
      id: field.uuid,
      positive: field.flag,
      comment: field.textOrNull(),
      wallet: field.text('Shortened.'),
      createdAt: field.time,
    }),
  ),
  stats: exactly({
    total: field.count,
    positive: field.count,
    negative: field.count,
    rating: {
      ...field.countOrNull,
      description: 'The percentage of positive reviews. Null if there are no reviews.',
    },
  }),
})

/**
 * `/api/reviews` lets buyers review their purchases, and shows reviews to every client. The responses have no envelope, like
 * discovery.
 */
export function reviewRoutes(app: FastifyInstance, api: Api): void {
  app.post<{ Body: Infer<typeof reviewBody> }>(
    '/api/reviews',
    {
      onRequest: limitPerClient(api, 'review', api.limits.reviewsPerHour, HOUR_MS),
      schema: {
        summary: 'Review a purchase',
        description:
          'A buyer can review a purchase once, within 90 days, with the reviewToken from the paid response. A review cannot be changed.',
        body: reviewBody,
        response: respond({ 201: exactly({ reviewId: field.uuid }) }, [400, 401, 403, 404, 409, 429]),
      },
    },
    async (request, reply) => {
      const review = await admit(api, request.body)
      await api.reviews.add(review)
      return reply.code(201).send({ reviewId: review.id })
    },
  )

  app.get<{ Querystring: Infer<typeof pageQuery> }>(
    '/api/reviews',
    {
      config: { anyOrigin: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, MINUTE_MS),
      schema: {
        summary: 'Read reviews',
        description: 'Lists the reviews of a link, or of all public links of a store, newest first.',
        querystring: pageQuery,
        response: respond({ 200: reviewList }, [400, 404, 429]),
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-cache')
      const { reviews, counts } = await readPage(api, request.query)
      const { total, positive } = counts
      return {
        reviews: reviews.map(toReviewView),
        stats: { total, positive, negative: total - positive, rating: ratingOf(counts) },
      }
    },
  )
}

/**
 * The review in a body, if its sender may write it.
 * @throws `NOT_FOUND`, `INVALID_REVIEW_TOKEN`, `FORBIDDEN`
 */
async function admit(api: Api, body: Infer<typeof reviewBody>): Promise<Review> {
  const { wallet, token, positive, comment } = body
  const purchase = isUuid(body.purchaseId)
    ? await api.purchases.find(body.purchaseId.toLowerCase())
    : undefined
  // If a reorganization (blocks replaced by others) removed the payment, it has bought nothing.
  if (purchase === undefined || purchase.status === 'reorged')
    throw new TollgateError('NOT_FOUND', 'No purchase has this id.')
  const nowMs = api.clock.now()
  if (!isOf(purchase, wallet, token))
    throw new TollgateError(
      'INVALID_REVIEW_TOKEN',
      'Expected the review token of this purchase and the wallet that paid for it, but one of them does not match. Send both as in the paid response.',
    )
  if (nowMs - purchase.createdAtMs > REVIEWABLE_MS)
    throw new TollgateError(
      'INVALID_REVIEW_TOKEN',
      'Expected a review token that is at most 90 days old, but this token has expired.',
    )
  const { linkId } = purchase
  if (linkId === null)
    throw new TollgateError(
      'FORBIDDEN',
      'Expected a purchase of a link, but this purchase was a payment session without a link, which cannot be reviewed.',
    )
  // A seller could otherwise collect reviews for nothing, by calls that cost 0.
  if (purchase.amountAtomic === 0n)
    throw new TollgateError(
      'FORBIDDEN',
      'Expected a purchase that was paid for, but this call was charged 0. Review a call that has cost something.',
    )
  if (await isOwnWallet(api, purchase))
    throw new TollgateError(
      'FORBIDDEN',
      'Expected a review by a buyer, but this wallet belongs to the store itself.',
    )
  return {
    id: randomUUID(),
    purchaseId: purchase.id,
    linkId,
    storeId: purchase.storeId,
    wallet: purchase.buyerWallet,
    isPositive: positive,
    comment: comment?.trim() || null,
    createdAtMs: nowMs,
  }
}

function isOf({ reviewTokenHash, buyerWallet, network }: Purchase, wallet: string, token: string): boolean {
  const given = Buffer.from(hash('sha256', token))
  const kept = Buffer.from(reviewTokenHash)
  const isToken = given.length === kept.length && timingSafeEqual(given, kept)
  return isToken && canonical(network, wallet) === canonical(network, buyerWallet)
}

/** EVM addresses are the same in upper and lower case. Case matters in Solana addresses, which are base58. */
const canonical = (network: string, wallet: string) =>
  network.startsWith('eip155:') ? wallet.toLowerCase() : wallet

async function isOwnWallet(api: Api, { storeId, network, buyerWallet }: Purchase): Promise<boolean> {
  const [store, signedIn] = await Promise.all([api.stores.find(storeId), api.stores.walletsOf(storeId)])
  const own = [store?.payout.base, store?.payout.solana, ...signedIn.map(({ address }) => address)]
  const buyer = canonical(network, buyerWallet)
  return own.some((wallet) => wallet != null && canonical(network, wallet) === buyer)
}

/** @throws `NOT_FOUND`, `LINK_NOT_FOUND` */
async function readPage(api: Api, { username, slug, ...page }: Infer<typeof pageQuery>): Promise<ReviewPage> {
  if (slug === undefined) {
    const store = await findStore(api, username)
    if (store === undefined) throw new TollgateError('NOT_FOUND', 'No store has this username.')
    return api.reviews.ofStore(store.id, page)
  }
  const link = await findLink(api, username, slug)
  if (link === undefined) throw new TollgateError('LINK_NOT_FOUND')
  return api.reviews.ofLink(link.id, page)
}

const toReviewView = ({ id, isPositive, comment, wallet, createdAtMs }: Review) => ({
  id,
  positive: isPositive,
  comment,
  wallet: wallet.length > 12 ? `${wallet.slice(0, 6)}…${wallet.slice(-4)}` : wallet,
  createdAt: isoTime(createdAtMs),
})
