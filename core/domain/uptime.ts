import type { LinkSuspension } from './link.ts'

/** How a link's API was found, in some time. */
export interface Checks {
  readonly probes: number
  readonly failedProbes: number
  /** Calls with which it was asked, and those that failed by its fault. */
  readonly calls: number
  readonly failedCalls: number
}

export interface SuspensionChange {
  readonly atMs: number
  readonly kind: 'suspended' | 're-enabled'
}

/**
 * How much of the time a link could be called, 0 to 1: the share of its health checks that passed, of the time in which it was
 * not suspended, when nobody asks. Without health checks, calls count in their place. Null where nothing is known.
 */
export function uptimeOf(checks: Checks, suspendedMs: number, elapsedMs: number): number | null {
  const served = elapsedMs <= 0 ? 1 : Math.max(0, 1 - suspendedMs / elapsedMs)
  const passed = shareOf(checks.probes, checks.failedProbes) ?? shareOf(checks.calls, checks.failedCalls)
  if (passed !== null) return served * passed
  return suspendedMs > 0 ? served : null
}

/** What a call is wherever calls are counted: a request, free or paid, that the link's API answered without failing (5xx, timeout). */
export const answeredCalls = ({ calls, failedCalls }: Pick<Checks, 'calls' | 'failedCalls'>): number =>
  Math.max(0, calls - Math.max(0, failedCalls))

/** The share of what did not fail; null where there was nothing. */
export const shareOf = (all: number, failed: number): number | null =>
  all <= 0 ? null : Math.max(0, all - Math.max(0, failed)) / all

/**
 * For how long a link was suspended between two moments.
 *
 * @param changes the oldest first. One that begins with a re-enabling was suspended before; a suspension without an end is over,
 *   unless it is the present one
 */
export function suspendedMsOf(
  changes: readonly SuspensionChange[],
  present: Pick<LinkSuspension, 'sinceMs'> | null,
  fromMs: number,
  toMs: number,
): number {
  const within = (sinceMs: number, untilMs: number) =>
    Math.max(0, Math.min(untilMs, toMs) - Math.max(sinceMs, fromMs))
  let sum = 0
  let sinceMs: number | null = Number.NEGATIVE_INFINITY
  for (const { atMs, kind } of changes) {
    if (kind === 'suspended') sinceMs = atMs
    else if (sinceMs !== null) {
      sum += within(sinceMs, atMs)
      sinceMs = null
    }
  }
  return present === null ? sum : sum + within(present.sinceMs, Number.POSITIVE_INFINITY)
}
