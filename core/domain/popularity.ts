import type { ReviewCounts } from './review.ts'

const DAY_MS = 24 * 60 * 60 * 1000

/** Maximum age of purchases that count, in ms. */
export const POPULAR_MS = 30 * DAY_MS
/** Maximum age of probes that count for the uptime, in ms. */
export const UPTIME_MS = 7 * DAY_MS
/** Days in which a link without sales loses half of its popularity. */
const HALF_LIFE_DAYS = 7
/** The assumed share of good reviews of a link without reviews, and the number of reviews for which it counts. */
const PRIOR = { share: 0.7, reviews: 10 }

export interface Demand {
  /** Distinct wallets that bought within {@link POPULAR_MS}, without the seller's own wallets. */
  readonly payers: number
  /** Time of the last purchase by one of these payers. It has no meaning if there are none. */
  readonly lastSaleAtMs: number
  /** Share of good probes, 0 to 1. */
  readonly uptime: number
  readonly reviews: ReviewCounts
}

/**
 * The popularity by which links are sorted: `ln(1 + payers) × 2^(−days since the last sale / 7) × uptime × rating`. The rating is a
 * Bayesian mean, so that a single good review ranks below ninety-nine good ones of a hundred.
 *
 * The function returns the logarithm relative to a fixed day. Two links then keep their order as time passes, so that nothing has
 * to be computed again. 0 without buyers.
 */
export function popularityOf({ payers, lastSaleAtMs, uptime, reviews }: Demand): number {
  if (payers === 0) return 0
  const { share, reviews: weight } = PRIOR
  const rating = (reviews.positive + share * weight) / (reviews.total + weight)
  const today = Math.log(1 + payers) * Math.max(uptime, 0.001) * rating
  // All purchases of a day count as made at the same time, so that a payer counts once a day.
  const day = Math.floor(lastSaleAtMs / DAY_MS)
  return Math.log2(today) + day / HALF_LIFE_DAYS
}
