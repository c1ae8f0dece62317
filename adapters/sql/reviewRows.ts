import type { Kysely, Selectable } from 'kysely'
import type { LinkId, StoreId } from '../../core/domain/link.ts'
import type { Review } from '../../core/domain/review.ts'
import type { ReviewTable, Schema } from './schema.ts'

export const toReviewColumns = (review: Review): ReviewTable => ({
  id: review.id,
  purchase_id: review.purchaseId,
  link_id: review.linkId,
  store_id: review.storeId,
  wallet: review.wallet,
  positive: Number(review.isPositive),
  comment: review.comment,
  created_at_ms: review.createdAtMs,
})

export const toReview = (row: Selectable<ReviewTable>): Review => ({
  id: row.id,
  purchaseId: row.purchase_id,
  linkId: row.link_id,
  storeId: row.store_id,
  wallet: row.wallet,
  isPositive: row.positive === 1,
  comment: row.comment,
  createdAtMs: row.created_at_ms,
})

/** A page of reviews and how many there are in all, as the queries for both. */
export function reviewQueries(query: Kysely<Schema>) {
  const newest = query.selectFrom('reviews as r').selectAll('r').orderBy('r.created_at_ms', 'desc')
  const counted = query
    .selectFrom('review_counts as c')
    .select((e) => [
      e.fn.coalesce(e.fn.sum<number>('c.total'), e.lit(0)).as('total'),
      e.fn.coalesce(e.fn.sum<number>('c.positive'), e.lit(0)).as('positive'),
    ])

  return {
    ofLink: (linkId: LinkId, { limit, offset }: { limit: number; offset: number }) => ({
      page: newest.where('r.link_id', '=', linkId).orderBy('r.id', 'desc').limit(limit).offset(offset),
      counts: counted.where('c.link_id', '=', linkId),
    }),

    ofStore: (storeId: StoreId, { limit, offset }: { limit: number; offset: number }) => ({
      page: newest
        .innerJoin('links as l', 'l.id', 'r.link_id')
        .where('r.store_id', '=', storeId)
        .where('l.is_active', '=', 1)
        .where('l.is_public', '=', 1)
        .where('l.is_stealth', '=', 0)
        .orderBy('r.id', 'desc')
        .limit(limit)
        .offset(offset),
      counts: counted
        .innerJoin('links as l', 'l.id', 'c.link_id')
        .where('l.store_id', '=', storeId)
        .where('l.is_active', '=', 1)
        .where('l.is_public', '=', 1)
        .where('l.is_stealth', '=', 0),
    }),
  }
}
