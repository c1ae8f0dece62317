import type { LinkId, StoreId } from '../../domain/link.ts'
import type { Review, ReviewCounts } from '../../domain/review.ts'

export interface ReviewPage {
  /** Newest first. */
  readonly reviews: readonly Review[]
  /** Of all of them, not of the page. */
  readonly counts: ReviewCounts
}

/** What buyers said. Who may say something is decided by whoever calls. */
export interface Reviews {
  /**
   * Counted in the same commit, in which `review.created` is told to those who listen.
   * @throws `ALREADY_REVIEWED` when there is a review of the purchase, however many come at once
   */
  add(review: Review): Promise<void>
  ofLink(linkId: LinkId, page: { limit: number; offset: number }): Promise<ReviewPage>
  /** Of the links that the store shows to everybody: active, public, not stealth. */
  ofStore(storeId: StoreId, page: { limit: number; offset: number }): Promise<ReviewPage>
}
