import type { LinkId, StoreId } from './link.ts'

/** What a buyer says of what was bought: one of a purchase, never changed. */
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

/** The percentage of reviews that are positive, a whole number; null where there is none. */
export const ratingOf = ({ total, positive }: ReviewCounts): number | null =>
  total === 0 ? null : Math.round((100 * positive) / total)

/** How long a purchase can be reviewed. */
export const REVIEWABLE_MS = 90 * 24 * 60 * 60 * 1000
