import type { LinkId, StoreId } from '../../domain/link.ts'
import type { ReviewCounts } from '../../domain/review.ts'
import type { Checks, SuspensionChange } from '../../domain/uptime.ts'

/** What one process counted of a link's calls within one hour. Added to what others counted. */
export interface Traffic {
  readonly linkId: LinkId
  /** Hours since 1970. */
  readonly hour: number
  /** Callers of a free link, and of a paid one that saw its price; each once an hour. */
  readonly views: number
  /** 402 answers, each of them. */
  readonly challenges: number
  /** Calls with which the seller's API was asked. Below zero when more were taken back than began. */
  readonly calls: number
  /** Of them, those that failed by the seller's fault. */
  readonly failedCalls: number
}

/** A time of a store, or of one link of it. */
export interface Span {
  readonly linkId?: LinkId
  /** It belongs to the span; views are counted from its hour or day on. */
  readonly fromMs: number
  /** It does not belong to the span. */
  readonly toMs: number
}

/**
 * What was sold. Purchases by the store's own wallets, those that signed in to it and those that it was paid to when they bought, are
 * in none of it.
 */
export interface Sales {
  /** Purchases that stand (settled, delivered), of calls and of payment sessions. */
  readonly purchases: number
  /** Different wallets that made them. */
  readonly buyers: number
  /** Sum of their priceUsd, in units of 10^-18 USD. */
  readonly revenueE18: bigint
}

export interface Totals extends Sales {
  readonly views: number
  readonly challenges: number
  /** Purchases that were paid back in this time, whenever they were made, and what they had cost. */
  readonly refunds: number
  readonly refundedE18: bigint
}

export interface Bucket extends Totals {
  readonly startMs: number
}

/** What a link's seller sees beside it. */
export interface LinkFigures extends Sales {
  readonly linkId: LinkId
  /** Of all time. */
  readonly reviews: ReviewCounts
  readonly health: HealthFigures
}

export interface HealthFigures {
  readonly checks: Checks
  /** The oldest first. */
  readonly changes: readonly SuspensionChange[]
}

/** One UTC day of a link's health; days on which nobody asked are left out. */
export interface DayChecks extends Checks {
  /** Days since 1970. */
  readonly day: number
}

/**
 * What calls, sales and health checks add up to, by link and time. No sale is lost from it. Nothing here holds up the event loop,
 * however much was sold. Figures of whole days, and of a store's whole hours, are of this moment and take no longer where more was
 * sold; others may be some seconds old.
 */
export interface Figures {
  /** All of it or nothing. What is written outlives the process, and may be lost in a power cut. */
  addTraffic(rows: readonly Traffic[]): Promise<void>
  /** Adds up what was sold since the last time, so that whoever asks next waits less. @returns how much it was; 0: nothing */
  sumUp(): Promise<number>
  totals(storeId: StoreId, span: Span): Promise<Totals>
  /** By hour or UTC day, the oldest first; where there was nothing, there is no bucket. */
  series(storeId: StoreId, span: Span & { readonly bucketMs: 3_600_000 | 86_400_000 }): Promise<Bucket[]>
  /** Of these links of a store, from the day of `fromMs` on; one without any, or of another store, is left out. */
  ofLinks(storeId: StoreId, linkIds: readonly LinkId[], fromMs: number): Promise<LinkFigures[]>
  /** Of these links, whosever they are; one of which nothing is known is left out. Days are counted whole. */
  healthOf(linkIds: readonly LinkId[], fromMs: number): Promise<ReadonlyMap<LinkId, HealthFigures>>
  /** A link's health checks and calls by UTC day, the oldest first, and when it was suspended and re-enabled since. */
  healthDays(
    linkId: LinkId,
    fromMs: number,
  ): Promise<{ days: DayChecks[]; changes: readonly SuspensionChange[] }>
}

export const HOUR_MS = 3_600_000
export const DAY_MS = 86_400_000
/** Traffic by the hour is kept so long, by the day for good: a period of thirty days and the one before. */
export const HOURS_KEPT_MS = 62 * DAY_MS
