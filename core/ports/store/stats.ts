import type { LinkId, StoreId } from '../../domain/link.ts'
import type { ReviewCounts } from '../../domain/review.ts'
import type { Checks, SuspensionChange } from '../../domain/uptime.ts'

/** One process's counts of a link's calls in one hour. They are added to the counts of other processes. */
export interface Traffic {
  readonly linkId: LinkId
  /** Hours since 1970. */
  readonly hour: number
  /** Callers of a free link, or callers of a paid link who saw its price. Each caller counts once an hour. */
  readonly views: number
  /** 402 responses. Every response counts. */
  readonly challenges: number
  /** Calls for which the gateway called the seller's API. Negative if more calls were taken back than began. */
  readonly calls: number
  /** Calls in `calls` that failed through the seller's fault. */
  readonly failedCalls: number
}

/** A period of time, for a store or one of its links. */
export interface Span {
  readonly linkId?: LinkId
  /** Start in ms, inclusive. Views count from the start of that hour or day. */
  readonly fromMs: number
  /** End in ms, exclusive. */
  readonly toMs: number
}

/**
 * Sales in a period. Purchases by the store's own wallets are left out. These are the wallets that sign in to the store, and the
 * wallets to which it was paid at the time.
 */
export interface Sales {
  /** Valid purchases (settled or delivered) of calls and payment sessions. */
  readonly purchases: number
  /** Number of distinct wallets that made these purchases. */
  readonly buyers: number
  /** Sum of the purchases' `priceUsd`, in units of 10^-18 USD. */
  readonly revenueE18: bigint
}

export interface Totals extends Sales {
  readonly views: number
  readonly challenges: number
  /** Purchases that were refunded in this period, even if they were made earlier, and the sum of their prices. */
  readonly refunds: number
  readonly refundedE18: bigint
}

export interface Bucket extends Totals {
  readonly startMs: number
}

/** The statistics of a link that its seller sees beside it. */
export interface LinkStats extends Sales {
  readonly linkId: LinkId
  /** Counts of all reviews, regardless of the period. */
  readonly reviews: ReviewCounts
  readonly health: HealthStats
}

export interface HealthStats {
  readonly checks: Checks
  /** The link's suspensions and re-enablings, oldest first. */
  readonly changes: readonly SuspensionChange[]
}

/** One UTC day of a link's health. Days without checks are left out. */
export interface DayChecks extends Checks {
  /** Days since 1970. */
  readonly day: number
}

/**
 * Statistics of calls, sales and health checks, by link and time. They include every sale. No method blocks the event loop, even
 * for a store with very many sales. Statistics of whole days, and of a store's whole hours, are current, and are not slower for
 * larger stores. Other statistics may be some seconds old.
 */
export interface Stats {
  /** Adds all counts or none. The write survives a crash of the process, but may be lost in a power cut. */
  addTraffic(rows: readonly Traffic[]): Promise<void>
  /**
   * Adds the sales since the last update to the rollups, so that the next query is faster.
   *
   * @returns how many updates it made, or 0 if there was nothing to add
   */
  sumUp(): Promise<number>
  totals(storeId: StoreId, span: Span): Promise<Totals>
  /** Statistics by hour or UTC day, oldest first, without empty buckets. */
  series(storeId: StoreId, span: Span & { readonly bucketMs: 3_600_000 | 86_400_000 }): Promise<Bucket[]>
  /**
   * Statistics of these links of a store, from the day of `fromMs` on. Links without statistics, and links of other stores, are
   * left out.
   */
  ofLinks(storeId: StoreId, linkIds: readonly LinkId[], fromMs: number): Promise<LinkStats[]>
  /** Health of these links of any store. Links without data are left out. Only whole days count. */
  healthOf(linkIds: readonly LinkId[], fromMs: number): Promise<ReadonlyMap<LinkId, HealthStats>>
  /** A link's health checks and calls by UTC day, oldest first, and its suspensions and re-enablings since `fromMs`. */
  healthDays(
    linkId: LinkId,
    fromMs: number,
  ): Promise<{ days: DayChecks[]; changes: readonly SuspensionChange[] }>
}

export const HOUR_MS = 3_600_000
export const DAY_MS = 86_400_000
