import type { ReviewCounts } from './review.ts'

const dayMs = 24 * 60 * 60 * 1000

/** Who bought within this time counts. */
export const POPULAR_MS = 30 * dayMs
/** Probes of this time make the uptime. */
export const UPTIME_MS = 7 * dayMs
/** Days in which a link that sells nothing any more loses half of its popularity. */
const HALF_LIFE_DAYS = 7
/** What a rating is taken for that nobody gave, and how many reviews that is worth. */
const PRIOR = { share: 0.7, reviews: 10 }

export interface Demand {
  /** Different wallets that bought within {@link POPULAR_MS}, without the seller's own. */
  readonly payers: number
  /** Of the last of their purchases; of no use where there is none. */
  readonly lastSaleAtMs: number
  /** Share of good probes, 0 to 1. */
  readonly uptime: number
  readonly reviews: ReviewCounts
}

/**
 * What links are ordered by: `ln(1 + payers) × 2^(−days since the last sale / 7) × uptime × rating`, the rating as a Bayes mean,
 * so that one good review is not better than ninety-nine of a hundred.
 *
 * Given as the logarithm of that, moved to a fixed day: the order of two links is the same at any later time, so that nothing has
 * to be counted again because time went by. 0 where nobody bought.
 */
export function popularityOf({ payers, lastSaleAtMs, uptime, reviews }: Demand): number {
  if (payers === 0) return 0
  const { share, reviews: weight } = PRIOR
  const rating = (reviews.positive + share * weight) / (reviews.total + weight)
  const today = Math.log(1 + payers) * Math.max(uptime, 0.001) * rating
  // A payer counts once a day: when on it, makes no difference.
  const day = Math.floor(lastSaleAtMs / dayMs)
  return Math.log2(today) + day / HALF_LIFE_DAYS
}
