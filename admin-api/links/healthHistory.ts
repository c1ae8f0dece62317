import type { Link } from '../../core/domain/link.ts'
import {
  type Checks,
  type SuspensionChange,
  shareOf,
  suspendedMsOf,
  uptimeOf,
} from '../../core/domain/uptime.ts'
import { DAY_MS } from '../../core/ports/store/figures.ts'
import type { Api } from '../deps.ts'
import { count, exactly, listOf, text } from '../schema/answers.ts'
import { healthOf } from './linkHealth.ts'

/** How far the history of a link's health reaches back, today included. */
const HEALTH_DAYS = 30

/** When the first of {@link HEALTH_DAYS} UTC days begins, of which today is the last. */
export const monthBefore = (nowMs: number): number => (Math.floor(nowMs / DAY_MS) - HEALTH_DAYS + 1) * DAY_MS

const percent = (description: string) => ({ type: ['number', 'null'], minimum: 0, maximum: 100, description })

const daySchema = exactly({
  day: text('UTC, such as `2026-06-02`.'),
  uptime: percent('Percentage of the day; null where nobody asked.'),
  checks: count,
  failedChecks: count,
  answered: percent("Percentage of calls that the seller's API answered; null where there were none."),
  suspendedMinutes: count,
})

export const uptimeSchema = percent(
  'Percentage of 30 days: health checks that passed, while the link was not suspended. Null where nobody asked yet.',
)

/** What {@link healthHistory} answers. */
export const healthHistorySchema = exactly({
  status: { enum: ['healthy', 'unhealthy', 'suspended', 'unknown'] },
  uptime: uptimeSchema,
  days: listOf(daySchema),
})

export interface HealthHistory {
  readonly status: string
  readonly uptime: number | null
  /** {@link HEALTH_DAYS} of them, the oldest first. */
  readonly days: readonly HealthDay[]
}

export interface HealthDay {
  readonly day: string
  readonly uptime: number | null
  readonly checks: number
  readonly failedChecks: number
  readonly answered: number | null
  readonly suspendedMinutes: number
}

/** How a link could be called, day by day: for its page, and for the bars on it. Percentages have two places. */
export async function healthHistory(api: Api, link: Link): Promise<HealthHistory> {
  const nowMs = api.clock.now()
  const today = Math.floor(nowMs / DAY_MS)
  const first = today - HEALTH_DAYS + 1
  const [{ days, changes }, { status }] = await Promise.all([
    api.figures.healthDays(link.id, first * DAY_MS),
    healthOf(api, link),
  ])
  const checksOf = new Map(days.map((one) => [one.day, one]))
  return {
    status,
    uptime: uptimeIn(link, sumOf(days), changes, first * DAY_MS, nowMs),
    days: Array.from({ length: HEALTH_DAYS }, (_, i): HealthDay => {
      const fromMs = (first + i) * DAY_MS
      const toMs = Math.min(fromMs + DAY_MS, nowMs)
      const checks = checksOf.get(first + i) ?? noChecks
      return {
        day: new Date(fromMs).toISOString().slice(0, 10),
        uptime: uptimeIn(link, checks, changes, fromMs, toMs),
        checks: checks.probes,
        failedChecks: checks.failedProbes,
        answered: toPercent(shareOf(checks.calls, checks.failedCalls)),
        suspendedMinutes: Math.round(suspendedMsOf(changes, link.suspension, fromMs, toMs) / 60_000),
      }
    }),
  }
}

/** Percentage of the time between two moments in which the link was there. */
export function uptimeIn(
  link: Pick<Link, 'createdAtMs' | 'suspension'>,
  checks: Checks,
  changes: readonly SuspensionChange[],
  fromMs: number,
  toMs: number,
): number | null {
  const sinceMs = Math.max(fromMs, link.createdAtMs)
  return toPercent(uptimeOf(checks, suspendedMsOf(changes, link.suspension, sinceMs, toMs), toMs - sinceMs))
}

/** 99.999 is not 100: whoever failed once has not always answered. */
const toPercent = (share: number | null): number | null => share && Math.floor(share * 10_000) / 100

const noChecks: Checks = { probes: 0, failedProbes: 0, calls: 0, failedCalls: 0 }

const sumOf = (days: readonly Checks[]): Checks =>
  days.reduce(
    (sum, day) => ({
      probes: sum.probes + day.probes,
      failedProbes: sum.failedProbes + day.failedProbes,
      calls: sum.calls + day.calls,
      failedCalls: sum.failedCalls + day.failedCalls,
    }),
    noChecks,
  )
