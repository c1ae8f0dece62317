import type { LinkId, StoreId } from './link.ts'

/** A buyer's review of a purchase. A purchase has at most one, which never changes. */
export interface Review {
  readonly id: string
  readonly purchaseId: string
  readonly linkId: LinkId
  readonly storeId: StoreId
  /** The wallet that paid. */
  readonly wallet: string
  readonly isPositive: boolean
  readonly comment: string | null
  readonly createdAtMs: number
}

export interface ReviewCounts {
  readonly total: number
  readonly positive: number
}

/** The percentage of positive reviews, as an integer. Null without reviews. */
export const ratingOf = ({ total, positive }: ReviewCounts): number | null =>
  total === 0 ? null : Math.round((100 * positive) / total)

/** How long a purchase can be reviewed, in ms. */
export const REVIEWABLE_MS = 90 * 24 * 60 * 60 * 1000
