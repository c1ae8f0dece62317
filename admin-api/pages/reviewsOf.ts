import { ratingOf } from '../../core/domain/review.ts'
import type { FoundLink } from '../../core/ports/store/discovery.ts'
import type { ReviewPage } from '../../core/ports/store/reviews.ts'
import { shortAddress } from '../../web/components/address.ts'
import type { ReviewListProps } from '../../web/site/reviewList.ts'
import { addressOf } from '../discovery/described.ts'

/** Reviews of one page; all of them are at `/api/reviews`. */
export const SHOWN_REVIEWS = 10

/**
 * What buyers said, as pages show it: wallets are shortened.
 * @param links of a store: each review says which of them it is of
 */
export const reviewsOf = (
  { reviews, counts }: ReviewPage,
  nowMs: number,
  links: readonly FoundLink[] = [],
): ReviewListProps => ({
  nowMs,
  total: counts.total,
  rating: ratingOf(counts),
  reviews: reviews.map(({ isPositive, comment, wallet, createdAtMs, linkId }) => ({
    ...{ isPositive, comment, createdAtMs },
    wallet: shortAddress(wallet),
    of: titleOf(links.find(({ id }) => id === linkId)),
  })),
})

const titleOf = (link: FoundLink | undefined) => link && { title: link.title, href: `/${addressOf(link)}` }
