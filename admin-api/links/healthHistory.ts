import type { Link } from '../../core/domain/link.ts'
import {
  type Checks,
  type SuspensionChange,
  shareOf,
  suspendedMsOf,
  uptimeOf,
} from '../../core/domain/uptime.ts'
import type { HealthEvent } from '../../core/ports/store/links.ts'
import { DAY_MS } from '../../core/ports/store/stats.ts'
import type { Api } from '../deps.ts'
import { exactly, field, isoTimeOrNull, listOf } from '../http/responses.ts'

export const healthSchema = exactly({
  status: { enum: ['healthy', 'unhealthy', 'suspended', 'unknown'] },
  lastCheckedAt: field.timeOrNull,
  lastStatus: field.countOrNull,
  latencyMs: field.countOrNull,
})

/** The health of a link in one value. It comes from the link's suspension and its latest health check. */
export async function healthOf(api: Api, link: Link) {
  const latest = (await api.links.healthEvents(link.id, 20)).find((event) => event.kind === 'probe')
  return {
    status: healthWord(link, latest),
    lastCheckedAt: isoTimeOrNull(latest?.atMs ?? null),
    lastStatus: latest?.status ?? null,
    latencyMs: latest?.latencyMs ?? null,
  }
}

export function healthWord(link: Link, latestProbe: HealthEvent | undefined): string {
  if (link.suspension !== null) return 'suspended'
  if (latestProbe === undefined) return 'unknown'
  return latestProbe.ok ? 'healthy' : 'unhealthy'
}

/** How many days the health history of a link covers, including today. */
const HEALTH_DAYS = 30

/** The start of the first of {@link HEALTH_DAYS} UTC days. Today is the last. */
export const monthBefore = (nowMs: number): number => (Math.floor(nowMs / DAY_MS) - HEALTH_DAYS + 1) * DAY_MS

const percent = (description: string) => ({ type: ['number', 'null'], minimum: 0, maximum: 100, description })

const daySchema = exactly({
  day: field.text('A UTC day, such as `2026-06-02`.'),
  uptime: percent('Percentage of the day; null for a day without health checks.'),
  checks: field.count,
  failedChecks: field.count,
  answered: percent("Percentage of calls that the seller's API answered; null for a day without calls."),
  suspendedMinutes: field.count,
})

export const uptimeSchema = percent(
  'Percentage of health checks that passed in 30 days. Time in suspension counts as down. Null before the first health check.',
)

/** Schema of the result of {@link healthHistory}. */
export const healthHistorySchema = exactly({
  status: { enum: ['healthy', 'unhealthy', 'suspended', 'unknown'] },
  uptime: uptimeSchema,
  days: listOf(daySchema),
})

/** The uptime of a link day by day, for its page and the bars on it. Percentages have two decimals. */
export async function healthHistory(api: Api, link: Link) {
  const nowMs = api.clock.now()
  const today = Math.floor(nowMs / DAY_MS)
  const first = today - HEALTH_DAYS + 1
  const [{ days, changes }, { status }] = await Promise.all([
    api.stats.healthDays(link.id, first * DAY_MS),
    healthOf(api, link),
  ])
  const checksOf = new Map(days.map((one) => [one.day, one]))
  return {
    status,
    uptime: uptimeIn(link, sumOf(days), changes, first * DAY_MS, nowMs),
    days: Array.from({ length: HEALTH_DAYS }, (_, i) => {
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

/** Percentage of a period in which the link was up. */
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

/** Rounds down, so that 99.999 does not become 100. A link that failed once was not always up. */
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
