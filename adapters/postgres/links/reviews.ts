import { sql } from 'kysely'
import { alreadyReviewed } from '../../../core/ports/refusals.ts'
import type { ReviewPage, Reviews } from '../../../core/ports/store/reviews.ts'
import { reviewQueries, toReview, toReviewColumns } from '../../sql/reviewRows.ts'
import type { Database } from '../database.ts'
import { ConstraintError } from '../failure.ts'
import { transact } from '../transact.ts'

/** Reviews in PostgreSQL. */
export function createReviews(database: Pick<Database, 'query'>): Reviews {
  const queries = reviewQueries(database.query)

  async function read({
    page,
    counts,
  }: ReturnType<typeof queries.ofLink | typeof queries.ofStore>): Promise<ReviewPage> {
    const [rows, { total, positive }] = await Promise.all([page.execute(), counts.executeTakeFirstOrThrow()])
    return { reviews: rows.map(toReview), counts: { total, positive } }
  }

  return {
    async add(review) {
      const { id, purchaseId, linkId, isPositive, comment, createdAtMs } = review
      const detail = JSON.stringify({ reviewId: id, positive: isPositive, comment })
      const added = transact(database, async (transaction) => {
        await transaction.insertInto('reviews').values(toReviewColumns(review)).execute()
        await sql`SELECT tell_of_link('review.created', ${linkId}, ${purchaseId}, ${detail}, ${createdAtMs})`.execute(
          transaction,
        )
      })
      await added.catch((error) => {
        if (!(error instanceof ConstraintError) || error.constraint !== 'reviews_purchase_id_key') throw error
        throw alreadyReviewed(purchaseId, { cause: error })
      })
    },

    ofLink: async (linkId, page) => read(queries.ofLink(linkId, page)),
    ofStore: async (storeId, page) => read(queries.ofStore(storeId, page)),
  }
}
