import type { CheckQueue, DueCheck, HourChecks } from '../../../core/ports/store/healthChecks.ts'
import type { Row } from '../row.ts'

/** How long a link's health timeline reaches back. */
export const HEALTH_KEPT_MS = 30 * 24 * 60 * 60 * 1000

/** How the queues are written. */
export const queueNumbers: Readonly<Record<CheckQueue, number>> = { called: 2, failing: 1, rest: 0 }

export const toDueCheck = (row: Row): DueCheck => ({
  linkId: String(row['link_id']),
  storeId: String(row['store_id']),
  url: String(row['url']),
  upstreamHeadersSealed: row['upstream_headers_sealed'] as string | null,
  username: String(row['username']),
  slug: String(row['slug']),
})

export const toHourChecks = (row: Row): HourChecks => ({
  hour: Number(row['hour']),
  checks: Number(row['checks']),
  failedChecks: Number(row['failed']),
  latencyMs: Math.round(Number(row['latency_sum_ms']) / Number(row['checks'])),
  maxLatencyMs: Number(row['latency_max_ms']),
})
