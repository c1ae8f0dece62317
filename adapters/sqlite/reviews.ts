import type { Compilable, Selectable } from 'kysely'
import type { Review } from '../../core/domain/review.ts'
import { alreadyReviewed } from '../../core/ports/refusals.ts'
import type { ReviewPage, Reviews } from '../../core/ports/reviews.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'
import { ConstraintError } from './failure.ts'
import type { ReaderThread } from './readerThread.ts'
import type { ReviewTable } from './schema.ts'
import type { Row } from './statement.ts'
import { tellOfLink } from './webhooks/telling.ts'

/** Reviews in SQLite. What is said of ten thousand links is looked through by a thread of its own. */
export function createReviews({ query, writer }: Database, thread: ReaderThread): Reviews {
  const newest = query.selectFrom('reviews as r').selectAll('r').orderBy('r.created_at_ms', 'desc')
  const counted = query
    .selectFrom('review_counts as c')
    .select((e) => [
      e.fn.coalesce(e.fn.sum<number>('c.total'), e.lit(0)).as('total'),
      e.fn.coalesce(e.fn.sum<number>('c.positive'), e.lit(0)).as('positive'),
    ])

  async function read(of: string, page: Compilable, counts: Compilable): Promise<ReviewPage> {
    const [rows, [counted]] = (await thread.of(of).read(compiled(page), compiled(counts))) as [Row[], [Row]]
    const reviews = rows.map((row) => toReview(row as unknown as Selectable<ReviewTable>))
    return { reviews, counts: { total: Number(counted['total']), positive: Number(counted['positive']) } }
  }

  return {
    async add(review) {
      const { id, purchaseId, linkId, storeId, wallet, isPositive, comment, createdAtMs } = review
      const row: ReviewTable = {
        ...{ id, purchase_id: purchaseId, link_id: linkId, store_id: storeId, wallet },
        ...{ positive: Number(isPositive), comment, created_at_ms: createdAtMs },
      }
      const tell = tellOfLink(linkId, {
        ...{ kind: 'review.created', purchaseId, atMs: createdAtMs },
        detail: { reviewId: id, positive: isPositive, comment },
      })
      const add = compiled(query.insertInto('reviews').values(row))
      await writer.write('runAll', [add, tell]).catch((error) => {
        if (!(error instanceof ConstraintError) || !error.message.includes('reviews.purchase_id')) throw error
        throw alreadyReviewed(purchaseId, { cause: error })
      })
    },

    ofLink: (linkId, { limit, offset }) =>
      read(
        linkId,
        newest.where('r.link_id', '=', linkId).orderBy('r.id', 'desc').limit(limit).offset(offset),
        counted.where('c.link_id', '=', linkId),
      ),

    ofStore: (storeId, { limit, offset }) =>
      read(
        storeId,
        newest
          .innerJoin('links as l', 'l.id', 'r.link_id')
          .where('r.store_id', '=', storeId)
          .where('l.is_active', '=', 1)
          .where('l.is_public', '=', 1)
          .where('l.is_stealth', '=', 0)
          .orderBy('r.id', 'desc')
          .limit(limit)
          .offset(offset),
        counted
          .innerJoin('links as l', 'l.id', 'c.link_id')
          .where('l.store_id', '=', storeId)
          .where('l.is_active', '=', 1)
          .where('l.is_public', '=', 1)
          .where('l.is_stealth', '=', 0),
      ),
  }
}

const toReview = (row: Selectable<ReviewTable>): Review => ({
  id: row.id,
  purchaseId: row.purchase_id,
  linkId: row.link_id,
  storeId: row.store_id,
  wallet: row.wallet,
  isPositive: row.positive === 1,
  comment: row.comment,
  createdAtMs: row.created_at_ms,
})
