import type { Compilable, Selectable } from 'kysely'
import { alreadyReviewed } from '../../core/ports/refusals.ts'
import type { ReviewPage, Reviews } from '../../core/ports/store/reviews.ts'
import { reviewQueries, toReview, toReviewColumns } from '../sql/reviewRows.ts'
import type { ReviewTable } from '../sql/schema.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'
import { ConstraintError } from './failure.ts'
import type { ReaderThread } from './reader/readerThread.ts'
import type { Row } from './statement.ts'
import { tellOfLink } from './webhooks/telling.ts'

/** Reviews in SQLite. What is said of ten thousand links is looked through by a thread of its own. */
export function createReviews({ query, writer }: Database, thread: ReaderThread): Reviews {
  const queries = reviewQueries(query)

  async function read(
    of: string,
    { page, counts }: { page: Compilable; counts: Compilable },
  ): Promise<ReviewPage> {
    const [rows, [counted]] = (await thread.of(of).read(compiled(page), compiled(counts))) as [Row[], [Row]]
    const reviews = rows.map((row) => toReview(row as unknown as Selectable<ReviewTable>))
    return { reviews, counts: { total: Number(counted['total']), positive: Number(counted['positive']) } }
  }

  return {
    async add(review) {
      const { id, purchaseId, linkId, isPositive, comment, createdAtMs } = review
      const tell = tellOfLink(linkId, {
        ...{ kind: 'review.created', purchaseId, atMs: createdAtMs },
        detail: { reviewId: id, positive: isPositive, comment },
      })
      const add = compiled(query.insertInto('reviews').values(toReviewColumns(review)))
      await writer.write('runAll', [add, tell]).catch((error) => {
        if (!(error instanceof ConstraintError) || !error.message.includes('reviews.purchase_id')) throw error
        throw alreadyReviewed(purchaseId, { cause: error })
      })
    },

    ofLink: (linkId, page) => read(linkId, queries.ofLink(linkId, page)),
    ofStore: (storeId, page) => read(storeId, queries.ofStore(storeId, page)),
  }
}
