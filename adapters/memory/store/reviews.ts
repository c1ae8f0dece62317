import type { Review } from '../../../core/domain/review.ts'
import { alreadyReviewed } from '../../../core/ports/refusals.ts'
import type { Reviews } from '../../../core/ports/store/reviews.ts'
import type { Access } from './access.ts'
import type { Memory } from './memory.ts'
import { tell } from './webhooks.ts'

/** Reviews in memory. */
export function createReviews(memory: Memory, { read, write }: Access): Reviews {
  const { reviews, links } = memory.tables
  const pageOf = (isOfIt: (review: Review) => boolean, page: { limit: number; offset: number }) => {
    const all = reviews
      .values()
      .filter(isOfIt)
      .sort((a, b) => b.createdAtMs - a.createdAtMs || (a.id < b.id ? 1 : -1))
    return {
      reviews: all.slice(page.offset, page.offset + page.limit),
      counts: { total: all.length, positive: all.filter(({ isPositive }) => isPositive).length },
    }
  }

  return {
    add: (review) =>
      write('flushed', () => {
        if (reviews.has(review.purchaseId)) throw alreadyReviewed(review.purchaseId)
        reviews.set(review.purchaseId, review)
        const {
          id: reviewId,
          purchaseId,
          linkId,
          storeId,
          isPositive: positive,
          comment,
          createdAtMs: atMs,
        } = review
        const detail = JSON.stringify({ reviewId, positive, comment })
        tell(memory, {
          ...{ kind: 'review.created', storeId, linkId, purchaseId, sessionId: null, endpointId: null },
          ...{ detail, atMs },
        })
      }),

    ofLink: (linkId, page) => read(() => pageOf((review) => review.linkId === linkId, page)),

    ofStore: (storeId, page) =>
      read(() => {
        const isShown = (linkId: string) => {
          const link = links.get(linkId)
          return link?.isActive === true && link.isPublic && !link.isStealth
        }
        return pageOf((review) => review.storeId === storeId && isShown(review.linkId), page)
      }),
  }
}
