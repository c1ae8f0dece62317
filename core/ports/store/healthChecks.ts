import type { LinkId, StoreId } from '../../domain/link.ts'
import type { HealthEvent } from './links.ts'

/** Whose turn it is first: links that are called, then those that failed lately, then all others. */
export const checkQueues = ['called', 'failing', 'rest'] as const
export type CheckQueue = (typeof checkQueues)[number]

/** Which links are looked for. */
export interface DueQuery {
  readonly queue: CheckQueue
  readonly nowMs: number
  /** No link's turn is later: one whose is was put there by a wrong clock, and comes now. */
  readonly latestMs: number
  readonly limit: number
}

/** A link whose API is to be asked, as far as it takes to ask it and to judge the answer. */
export interface DueCheck {
  readonly linkId: LinkId
  readonly storeId: StoreId
  readonly url: string
  readonly upstreamHeadersSealed: string | null
  readonly username: string
  /** By which callers know it: the private one of a stealth link. */
  readonly slug: string
}

/** What a health check saw. */
export interface Check extends Omit<HealthEvent, 'kind' | 'isAskedBySeller'> {
  /** When and how it is asked again; left out: as it stood before. */
  readonly next?: {
    readonly atMs: number
    /** It goes into the queue of failing links, unless it was called lately. */
    readonly isFailing: boolean
    /** It goes into the queue of called links when it was called since. */
    readonly calledSinceMs: number
  }
}

/** The health checks of one hour that is not over yet, or of which all are in. */
export interface HourChecks {
  /** Hours since 1970. */
  readonly hour: number
  readonly checks: number
  readonly failedChecks: number
  /** Mean and longest time to an answer's head, or to giving up. */
  readonly latencyMs: number
  readonly maxLatencyMs: number
}

/** Hours of checks are kept so long; days for good (`Figures.healthDays`). */
export const CHECK_HOURS_KEPT = 25
/** Checks that are noted in one go, all or none of them: more would hold the writer from payments. */
export const CHECKS_AT_ONCE = 10
/** Single checks that stand in a link's timeline: those that failed, and the first that passed after them. */
export const CHECKS_IN_TIMELINE = 200

/**
 * When each link's API is asked whether it answers, and what that adds up to. Every link that can be called and has an API
 * has a turn: a new one, one that is re-enabled and one with another url at once. Whoever counts its calls
 * (`Figures.addTraffic`) puts it into the queue `called`.
 */
export interface HealthChecks {
  /** Links whose turn has come, the longest overdue first. Reads no more rows than it names. */
  due(query: DueQuery): Promise<DueCheck[]>
  /**
   * Adds to the sums, replaces what was seen last, and puts the links back into the queues. A check that failed, and one that
   * passed after it, stands in the timeline (`Links.healthEvents`). What is written outlives the process, and may be lost in a
   * power cut.
   */
  note(checks: readonly Check[]): Promise<void>
  /** Puts links off that can not be asked now. */
  putOff(linkIds: readonly LinkId[], toMs: number): Promise<void>
  /** Of a link, the oldest first; hours without a check are left out. */
  hours(linkId: LinkId, sinceMs: number): Promise<HourChecks[]>
}
