import type { LinkId, StoreId } from '../../domain/link.ts'
import type { Review, ReviewCounts } from '../../domain/review.ts'

export interface ReviewPage {
  /** Newest first. */
  readonly reviews: readonly Review[]
  /** Counts of all reviews, not only those of this page. */
  readonly counts: ReviewCounts
}

/** Buyers' reviews. The caller decides which buyer may write a review. */
export interface Reviews {
  /**
   * Adds a review. The same commit counts it and writes the event `review.created` for the store's webhooks.
   *
   * @throws `ALREADY_REVIEWED` if the purchase has a review, even under concurrent calls
   */
  add(review: Review): Promise<void>
  ofLink(linkId: LinkId, page: { limit: number; offset: number }): Promise<ReviewPage>
  /** Reviews of the links that the store shows publicly, which are active, public and not stealth. */
  ofStore(storeId: StoreId, page: { limit: number; offset: number }): Promise<ReviewPage>
}
