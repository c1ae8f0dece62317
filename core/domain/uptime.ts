import type { LinkSuspension } from './link.ts'

/** The checks and calls of a link's API in some period. */
export interface Checks {
  readonly probes: number
  readonly failedProbes: number
  /** Calls for which the gateway called the link's API. `failedCalls` are those that failed through the API's fault. */
  readonly calls: number
  readonly failedCalls: number
}

export interface SuspensionChange {
  readonly atMs: number
  readonly kind: 'suspended' | 're-enabled'
}

/**
 * The share of time in which a link could be called, from 0 to 1. It is the share of health checks that passed, times the share of
 * time without suspension. If there are no health checks, calls count instead. Null without any data.
 */
export function uptimeOf(checks: Checks, suspendedMs: number, elapsedMs: number): number | null {
  const served = elapsedMs <= 0 ? 1 : Math.max(0, 1 - suspendedMs / elapsedMs)
  const passed = shareOf(checks.probes, checks.failedProbes) ?? shareOf(checks.calls, checks.failedCalls)
  if (passed !== null) return served * passed
  return suspendedMs > 0 ? served : null
}

/**
 * The number of successful calls. Wherever calls are counted, a call is a free or paid request to which the link's API responded
 * without failing (5xx, timeout).
 */
export const answeredCalls = ({ calls, failedCalls }: Pick<Checks, 'calls' | 'failedCalls'>): number =>
  Math.max(0, calls - Math.max(0, failedCalls))

/** The share that did not fail. Null without any data. */
export const shareOf = (all: number, failed: number): number | null =>
  all <= 0 ? null : Math.max(0, all - Math.max(0, failed)) / all

/**
 * How long a link was suspended between two moments, in ms.
 *
 * @param changes oldest first. If the first change is a re-enabling, the link was suspended before it. A suspension without an end
 *   counts as over, unless it is the current one
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
