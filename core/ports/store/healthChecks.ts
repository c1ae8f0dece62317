import type { LinkId, StoreId } from '../../domain/link.ts'
import type { HealthEvent } from './links.ts'

/** The queues in order of priority: links with recent calls, then links that failed recently, then all others. */
export const checkQueues = ['called', 'failing', 'rest'] as const
export type CheckQueue = (typeof checkQueues)[number]

/** Selects the links that are due for a check. */
export interface DueQuery {
  readonly queue: CheckQueue
  readonly nowMs: number
  /** The latest possible due time. A later due time was set by a wrong clock, and counts as due. */
  readonly latestMs: number
  readonly limit: number
}

/** A link whose API must be checked, with the fields that the check and its verdict need. */
export interface DueCheck {
  readonly linkId: LinkId
  readonly storeId: StoreId
  readonly url: string
  readonly upstreamHeadersSealed: string | null
  readonly username: string
  /** The slug in the link's address, which is the private slug if the link is a stealth link. */
  readonly slug: string
}

/** The result of a health check. */
export interface Check extends Omit<HealthEvent, 'kind' | 'isRequestedBySeller'> {
  /** When to check the link next, and in which queue. If absent, both stay unchanged. */
  readonly next?: {
    readonly atMs: number
    /** Moves the link into the queue `failing`, unless it was called recently. */
    readonly isFailing: boolean
    /** Moves the link into the queue `called` if it was called since this time. */
    readonly calledSinceMs: number
  }
}

/** The health checks of one hour. The hour may not be over yet. */
export interface HourChecks {
  /** Hours since 1970. */
  readonly hour: number
  readonly checks: number
  readonly failedChecks: number
  /** Mean and longest time until the head of a response, or until the check gave up, in ms. */
  readonly latencyMs: number
  readonly maxLatencyMs: number
}

/** How many hours the hourly checks are stored. Daily checks are stored permanently (`Stats.healthDays`). */
export const CHECK_RETENTION_HOURS = 25
/** Maximum checks in one commit. More checks would delay the writes of payments. */
export const CHECKS_AT_ONCE = 10
/**
 * Maximum single checks in a link's timeline. The timeline has the failed checks, and the first passed check after each failure.
 */
export const CHECKS_IN_TIMELINE = 200

/**
 * The schedule and the statistics of the checks of links' APIs. Every active link with an API is in a queue, unless it is
 * suspended. A new link, a re-enabled link and a link with a new url are due at once. When a link's calls are counted
 * (`Stats.addTraffic`), the link moves to the queue `called`.
 */
export interface HealthChecks {
  /** Links that are due, longest overdue first. Reads no more rows than it returns. */
  due(query: DueQuery): Promise<DueCheck[]>
  /**
   * Adds checks to the statistics, replaces each link's last result, and schedules each link's next check. A failed check, and the
   * first passed check after it, are added to the timeline (`Links.healthEvents`). The write survives a crash of the process, but
   * may be lost in a power cut.
   */
  note(checks: readonly Check[]): Promise<void>
  /** Puts off links that cannot be checked now. */
  putOff(linkIds: readonly LinkId[], toMs: number): Promise<void>
  /** The hourly checks of a link, oldest first. Hours without a check are left out. */
  hours(linkId: LinkId, sinceMs: number): Promise<HourChecks[]>
}
