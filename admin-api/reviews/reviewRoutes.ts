import { hash, randomUUID, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Purchase } from '../../core/domain/purchase.ts'
import { REVIEWABLE_MS, type Review, ratingOf } from '../../core/domain/review.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ReviewPage } from '../../core/ports/store/reviews.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/envelope.ts'
import { idOrNotFound } from '../http/ids.ts'
import { hourMs, limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { findLink } from '../links/findLink.ts'
import {
  answers,
  count,
  countOrNull,
  exactly,
  flag,
  listOf,
  text,
  textOrNull,
  time,
  uuid,
} from '../schema/answers.ts'
import { commentField, walletField } from '../schema/fields.ts'
import type { Infer } from '../schema/infer.ts'
import { findStore } from '../stores/storeRoute.ts'

const reviewBody = {
  type: 'object',
  additionalProperties: false,
  required: ['purchaseId', 'wallet', 'token', 'positive'],
  properties: {
    purchaseId: { type: 'string', maxLength: 64, description: 'Of the paid answer.' },
    wallet: { ...walletField, description: 'The wallet that paid.' },
    token: { type: 'string', minLength: 1, maxLength: 128, description: "The paid answer's reviewToken." },
    positive: { type: 'boolean' },
    comment: commentField,
  },
} as const

const pageQuery = {
  type: 'object',
  required: ['username'],
  properties: {
    username: { type: 'string', maxLength: 64, description: 'The seller.' },
    slug: {
      type: 'string',
      maxLength: 64,
      description: 'The link; left out, all links that the store shows.',
    },
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
    offset: { type: 'integer', minimum: 0, maximum: 100_000, default: 0 },
  },
} as const

const reviewList = exactly({
  reviews: listOf(
    exactly({ id: uuid, positive: flag, comment: textOrNull(), wallet: text('Shortened.'), createdAt: time }),
  ),
  stats: exactly({
    total: count,
    positive: count,
    negative: count,
    rating: { ...countOrNull, description: 'Percentage of positive ones; null without any.' },
  }),
})

interface PageQuery {
  readonly username: string
  readonly slug?: string
  readonly limit: number
  readonly offset: number
}

/** `/api/reviews`: buyers say what they think of what they bought, anybody reads it. No envelope, as discovery has none. */
export function reviewRoutes(app: FastifyInstance, api: Api): void {
  app.post<{ Body: Infer<typeof reviewBody> }>(
    '/api/reviews',
    {
      onRequest: limitPerClient(api, 'review', api.limits.reviewsPerHour, hourMs),
      schema: {
        summary: 'Review a purchase',
        description:
          'With the reviewToken of the paid answer, within 90 days. One review a purchase; it can not be changed.',
        body: reviewBody,
        response: answers({ 201: exactly({ reviewId: uuid }) }, 400, 401, 403, 404, 409, 429),
      },
    },
    async (request, reply) => {
      const review = await admit(api, request.body)
      await api.reviews.add(review)
      return reply.code(201).send({ reviewId: review.id })
    },
  )

  app.get<{ Querystring: PageQuery }>(
    '/api/reviews',
    {
      config: { anyOrigin: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, minuteMs),
      schema: {
        summary: 'Read reviews',
        description: 'Of a link, or of all links that a store shows; newest first.',
        querystring: pageQuery,
        response: answers({ 200: reviewList }, 400, 404, 429),
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
 * The review that a body asks for, when its sender may give it.
 * @throws `NOT_FOUND`, `INVALID_REVIEW_TOKEN`, `FORBIDDEN`
 */
async function admit(api: Api, body: Infer<typeof reviewBody>): Promise<Review> {
  const { wallet, token, positive, comment } = body
  const purchase = await api.purchases.find(idOrNotFound(body.purchaseId, 'NOT_FOUND'))
  // A payment that a reorganisation took away has bought nothing.
  if (purchase === undefined || purchase.status === 'reorged')
    throw new TollgateError('NOT_FOUND', 'There is no purchase with this id.')
  const nowMs = api.clock.now()
  if (!isOf(purchase, wallet, token))
    throw new TollgateError(
      'INVALID_REVIEW_TOKEN',
      'Expected the review token of this purchase and the wallet that paid; one of them is another. Send both as the paid answer gave them.',
    )
  if (nowMs - purchase.createdAtMs > REVIEWABLE_MS)
    throw new TollgateError('INVALID_REVIEW_TOKEN', 'A review token is good for 90 days; this one is older.')
  const { linkId } = purchase
  if (linkId === null)
    throw new TollgateError(
      'FORBIDDEN',
      'Only what was bought of a link is reviewed; this was a payment of any amount.',
    )
  if (await isOwnWallet(api, purchase))
    throw new TollgateError('FORBIDDEN', 'A store does not review itself: this wallet is one of its own.')
  return {
    ...{ id: randomUUID(), purchaseId: purchase.id, linkId, storeId: purchase.storeId },
    ...{ wallet: purchase.buyerWallet, isPositive: positive, comment: comment?.trim() || null },
    createdAtMs: nowMs,
  }
}

function isOf({ reviewTokenHash, buyerWallet, network }: Purchase, wallet: string, token: string): boolean {
  const given = Buffer.from(hash('sha256', token))
  const kept = Buffer.from(reviewTokenHash)
  const isToken = given.length === kept.length && timingSafeEqual(given, kept)
  return isToken && canonical(network, wallet) === canonical(network, buyerWallet)
}

/** An EVM address is the same in either case; a Solana address is base58, where case counts. */
const canonical = (network: string, wallet: string) =>
  network.startsWith('eip155:') ? wallet.toLowerCase() : wallet

async function isOwnWallet(api: Api, { storeId, network, buyerWallet }: Purchase): Promise<boolean> {
  const [store, signedIn] = await Promise.all([api.stores.find(storeId), api.stores.walletsOf(storeId)])
  const own = [store?.payout.base, store?.payout.solana, ...signedIn.map(({ address }) => address)]
  const buyer = canonical(network, buyerWallet)
  return own.some((wallet) => wallet != null && canonical(network, wallet) === buyer)
}

/** @throws `NOT_FOUND`, `LINK_NOT_FOUND` */
async function readPage(api: Api, { username, slug, ...page }: PageQuery): Promise<ReviewPage> {
  if (slug === undefined) {
    const store = await findStore(api, username)
    if (store === undefined) throw new TollgateError('NOT_FOUND', 'There is no store with this username.')
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
