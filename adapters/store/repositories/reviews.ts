import type { Review } from '../../../core/domain/review.ts'
import { alreadyReviewed } from '../../../core/ports/refusals.ts'
import type { Reviews } from '../../../core/ports/store/reviews.ts'
import type { ReviewTable } from '../sql/schema.ts'
import { noteLinkEvent } from './events.ts'
import { type CallsOf, type Reads, row, type Steps, type Tx } from './transaction.ts'

interface Counts {
  readonly total: number
  readonly positive: number
}

export const reviewWrites = {
  *add(tx: Tx, review: Review): Steps<void> {
    const { id, purchaseId, linkId, storeId, wallet, comment, createdAtMs } = review
    const positive = Number(review.isPositive)
    const columns = {
      id,
      purchase_id: purchaseId,
      link_id: linkId,
      store_id: storeId,
      wallet,
      positive,
      comment,
      created_at_ms: createdAtMs,
    }
    const added = yield* tx.run`INSERT INTO reviews ${row(columns)} ON CONFLICT (purchase_id) DO NOTHING`
    if (added === 0) throw alreadyReviewed(purchaseId)
    const counts = yield* tx.one<Counts>`
      INSERT INTO review_counts AS c ${row({ link_id: linkId, total: 1, positive })}
      ON CONFLICT (link_id) DO UPDATE SET total = c.total + 1, positive = c.positive + excluded.positive
      RETURNING total, positive`
    const rating = Math.round((100 * counts!.positive) / counts!.total)
    yield* tx.run`UPDATE listings SET rating = ${rating} WHERE link_id = ${linkId}`
    yield* tx.run`INSERT INTO link_stats AS s ${row({ link_id: linkId, changed: 1 })}
      ON CONFLICT (link_id) DO UPDATE SET changed = s.changed + 1`
    const detail = { reviewId: id, positive: review.isPositive, comment }
    yield* noteLinkEvent(tx, linkId, { kind: 'review.created', purchaseId, atMs: createdAtMs, detail })
  },
}

/**
 * Reviews by buyers.
 * @param readsFor creates the reads of one link or store, which take turns with the reads of others
 */
export function createReviews(
  { reviews }: { readonly reviews: CallsOf<typeof reviewWrites> },
  readsFor: (requester: string) => Reads,
): Reviews {
  const pageOf = ([rows, counts]: readonly [ReviewTable[], Counts | undefined]) => ({
    reviews: rows.map(toReview),
    counts: { total: Number(counts!.total), positive: Number(counts!.positive) },
  })

  return {
    ...reviews,

    async ofLink(linkId, { limit, offset }) {
      const reads = readsFor(linkId)
      return pageOf(
        await Promise.all([
          reads.all<ReviewTable>`SELECT * FROM reviews WHERE link_id = ${linkId}
            ORDER BY created_at_ms DESC, id DESC LIMIT ${limit} + 0 OFFSET ${offset}`,
          reads.one<Counts>`SELECT coalesce(sum(total), 0) AS total, coalesce(sum(positive), 0) AS positive
            FROM review_counts WHERE link_id = ${linkId}`,
        ]),
      )
    },

    async ofStore(storeId, { limit, offset }) {
      const reads = readsFor(storeId)
      return pageOf(
        await Promise.all([
          reads.all<ReviewTable>`SELECT r.* FROM reviews r JOIN links l ON l.id = r.link_id
            WHERE r.store_id = ${storeId} AND l.is_active = 1 AND l.is_public = 1 AND l.is_stealth = 0
            ORDER BY r.created_at_ms DESC, r.id DESC LIMIT ${limit} + 0 OFFSET ${offset}`,
          reads.one<Counts>`SELECT coalesce(sum(c.total), 0) AS total, coalesce(sum(c.positive), 0) AS positive
            FROM review_counts c JOIN links l ON l.id = c.link_id
            WHERE l.store_id = ${storeId} AND l.is_active = 1 AND l.is_public = 1 AND l.is_stealth = 0`,
        ]),
      )
    },
  }
}

const toReview = (row: ReviewTable): Review => ({
  id: row.id,
  purchaseId: row.purchase_id,
  linkId: row.link_id,
  storeId: row.store_id,
  wallet: row.wallet,
  isPositive: row.positive === 1,
  comment: row.comment,
  createdAtMs: row.created_at_ms,
})
