import {
  CHECK_RETENTION_HOURS,
  CHECKS_AT_ONCE,
  CHECKS_IN_TIMELINE,
  type Check,
  type CheckQueue,
  type DueCheck,
  type HealthChecks,
  type HourChecks,
} from '../../../../core/ports/store/healthChecks.ts'
import type { HealthEvent, Links } from '../../../../core/ports/store/links.ts'
import { DAY_MS, HOUR_MS } from '../../../../core/ports/store/stats.ts'
import type { LinkTable } from '../../sql/schema.ts'
import {
  type CallsOf,
  list,
  locked,
  type Reads,
  row,
  type Steps,
  type Tx,
  table,
  words,
} from '../transaction.ts'

/** How long events of a link's health are stored, in ms. */
const HEALTH_RETENTION_MS = 30 * DAY_MS

export const healthCheckWrites = {
  *note(tx: Tx, checks: readonly Check[]): Steps<void> {
    const ids = [...new Set(checks.map(({ linkId }) => linkId))]
    yield* tx.all`SELECT link_id FROM link_checks WHERE link_id IN ${list(ids)} ORDER BY link_id ${locked}`
    yield* tx.run`
      INSERT INTO health_events (link_id, at_ms, kind, ok, status, latency_ms, detail)
      SELECT n.link_id, n.at_ms, 'probe', n.ok, n.status, n.latency_ms, n.detail
      FROM ${seen(checks)} LEFT JOIN link_checks c ON c.link_id = n.link_id
      WHERE n.ok = 0 OR c.ok = 0 ORDER BY n.place`
    yield* tx.run`
      INSERT INTO link_checks AS c (link_id, at_ms, ok, status, latency_ms, detail, due_at_ms, queue, called_at_ms)
      SELECT link_id, at_ms, ok, status, latency_ms, detail, next_at_ms, is_failing, called_since_ms
      FROM ${seen(lastOfEach(checks))} WHERE true ORDER BY link_id
      ON CONFLICT (link_id) DO UPDATE SET at_ms = excluded.at_ms, ok = excluded.ok, status = excluded.status,
        latency_ms = excluded.latency_ms, detail = excluded.detail,
        due_at_ms = CASE WHEN c.due_at_ms IS NULL THEN NULL ELSE coalesce(excluded.due_at_ms, c.due_at_ms) END,
        queue = CASE WHEN excluded.due_at_ms IS NULL THEN c.queue
          WHEN c.called_at_ms > excluded.called_at_ms AND c.called_at_ms <= excluded.at_ms THEN 2
          ELSE excluded.queue END`
    yield* tx.run`
      INSERT INTO check_hours AS h (link_id, hour, checks, failed, latency_sum_ms, latency_max_ms)
      SELECT link_id, hour, count(*), count(*) FILTER (WHERE ok = 0), coalesce(sum(latency_ms), 0),
        coalesce(max(latency_ms), 0)
      FROM ${seen(checks)} WHERE true GROUP BY link_id, hour ORDER BY link_id, hour
      ON CONFLICT (link_id, hour) DO UPDATE SET checks = h.checks + excluded.checks, failed = h.failed + excluded.failed,
        latency_sum_ms = h.latency_sum_ms + excluded.latency_sum_ms,
        latency_max_ms = ${larger}(h.latency_max_ms, excluded.latency_max_ms)`
    yield* tx.run`
      INSERT INTO link_days AS d (link_id, day, probes, failed_probes)
      SELECT link_id, day, count(*), count(*) FILTER (WHERE ok = 0)
      FROM ${seen(checks)} WHERE true GROUP BY link_id, day ORDER BY link_id, day
      ON CONFLICT (link_id, day) DO UPDATE
        SET probes = d.probes + excluded.probes, failed_probes = d.failed_probes + excluded.failed_probes`
    const lastMs = Math.max(...checks.map(({ atMs }) => atMs))
    yield* tx.run`DELETE FROM check_hours
      WHERE link_id IN ${list(ids)} AND hour < ${Math.floor(lastMs / HOUR_MS) - CHECK_RETENTION_HOURS}`
    yield* tx.run`DELETE FROM health_events
      WHERE link_id IN ${list(ids)} AND at_ms < ${lastMs - HEALTH_RETENTION_MS}`
    const failed = checks.filter(({ ok }) => !ok)
    if (failed.length === 0) return
    yield* tx.run`
      DELETE FROM health_events WHERE id IN (
        SELECT old.id FROM (
          SELECT (SELECT h.id FROM health_events h WHERE h.link_id = n.link_id AND h.kind = 'probe' AND h.asked_by_seller = 0
            ORDER BY h.at_ms DESC, h.id DESC LIMIT 1 OFFSET ${CHECKS_IN_TIMELINE} + 0) AS id
          FROM ${seen(lastOfEach(failed))}) AS cut
        JOIN health_events c ON c.id = cut.id
        JOIN health_events old ON old.link_id = c.link_id AND (old.at_ms, old.id) <= (c.at_ms, c.id)
          AND old.kind = 'probe' AND old.asked_by_seller = 0)`
  },

  *putOff(tx: Tx, linkIds: readonly string[], toMs: number): Steps<void> {
    yield* tx.run`
      UPDATE link_checks SET due_at_ms = ${toMs} WHERE due_at_ms IS NOT NULL AND link_id IN (
        SELECT link_id FROM link_checks WHERE link_id IN ${list(linkIds)} ORDER BY link_id ${locked})`
  },

  *addEvent(tx: Tx, event: HealthEvent): Steps<void> {
    const { linkId, atMs, kind, isRequestedBySeller = false } = event
    if (kind === 'probe' && !isRequestedBySeller) return yield* healthCheckWrites.note(tx, [event])
    const columns = {
      link_id: linkId,
      at_ms: atMs,
      kind,
      ok: Number(event.ok),
      status: event.status,
      latency_ms: event.latencyMs === null ? null : Math.round(event.latencyMs),
      detail: event.detail,
      asked_by_seller: Number(isRequestedBySeller),
    }
    yield* tx.run`INSERT INTO health_events ${row(columns)}`
    yield* tx.run`DELETE FROM health_events WHERE link_id = ${linkId} AND at_ms < ${atMs - HEALTH_RETENTION_MS}`
  },
}

/** Schedules checks of a link that can be called and has an API. The first check is due at once if the link or its URL is new. */
export function* scheduleCheck(tx: Tx, before: LinkTable | undefined, after: LinkTable): Steps<void> {
  const [was, is] = [before !== undefined && isChecked(before), isChecked(after)]
  if (was === is && (before?.url ?? after.url) === after.url) return
  const turn = { link_id: after.id, due_at_ms: is ? after.updated_at_ms : null }
  yield* tx.run`INSERT INTO link_checks ${row(turn)}
    ON CONFLICT (link_id) DO UPDATE SET due_at_ms = excluded.due_at_ms`
}

const isChecked = (link: LinkTable): boolean =>
  link.is_active === 1 && link.link_type === 'api' && link.suspension === null

const larger = words('max', 'greatest')

/** The checks as a table `n`, in the order of `place`. */
const seen = (checks: readonly Check[]) =>
  table(
    'n',
    {
      place: 'bigint',
      link_id: 'text',
      at_ms: 'bigint',
      hour: 'bigint',
      day: 'bigint',
      ok: 'smallint',
      status: 'bigint',
      latency_ms: 'bigint',
      detail: 'text',
      next_at_ms: 'bigint',
      is_failing: 'bigint',
      called_since_ms: 'bigint',
    },
    checks.map(({ linkId, atMs, ok, status, latencyMs, detail, next }, place) => ({
      place,
      link_id: linkId,
      at_ms: atMs,
      hour: Math.floor(atMs / HOUR_MS),
      day: Math.floor(atMs / DAY_MS),
      ok: Number(ok),
      status,
      latency_ms: latencyMs === null ? null : Math.round(latencyMs),
      detail,
      next_at_ms: next?.atMs ?? null,
      is_failing: Number(next?.isFailing ?? false),
      called_since_ms: next?.calledSinceMs ?? 0,
    })),
  )

/** Returns the last check and the last turn of each link, because a statement can change a row only once. */
function lastOfEach(checks: readonly Check[]): Check[] {
  const last = new Map<string, Check>()
  for (const check of checks) {
    const next = check.next ?? last.get(check.linkId)?.next
    last.set(check.linkId, { ...check, ...(next !== undefined && { next }) })
  }
  return [...last.values()]
}

/** The numbers of the queues in the database. */
const queueNumbers: Readonly<Record<CheckQueue, number>> = { called: 2, failing: 1, rest: 0 }

interface DueRow {
  readonly link_id: string
  readonly store_id: string
  readonly url: string
  readonly upstream_headers_sealed: string | null
  readonly username: string
  readonly slug: string
}

interface HourRow {
  readonly hour: number
  readonly checks: number
  readonly failed: number
  readonly latency_sum_ms: number
  readonly latency_max_ms: number
}

/** Health checks. Each link has one row with the time of its next check, and rollups by hour and day. */
export function createHealthChecks(
  { healthChecks }: { readonly healthChecks: CallsOf<typeof healthCheckWrites> },
  reads: Reads,
): HealthChecks {
  return {
    async due({ queue, nowMs, latestMs, limit }) {
      const turns = (fromMs: number, toMs: number, most: number) => reads.all<DueRow>`
        SELECT c.link_id, l.store_id, l.url, l.upstream_headers_sealed, s.username,
          CASE WHEN l.is_stealth = 1 THEN l.private_slug ELSE l.slug END AS slug
        FROM (SELECT link_id, due_at_ms FROM link_checks
            WHERE queue = ${queueNumbers[queue]} AND due_at_ms > ${fromMs} AND due_at_ms <= ${toMs}
            ORDER BY due_at_ms LIMIT ${most} + 0) c
          JOIN links l ON l.id = c.link_id JOIN stores s ON s.id = l.store_id
        ORDER BY c.due_at_ms`
      const rows = await turns(Number.MIN_SAFE_INTEGER, nowMs, limit)
      if (rows.length < limit)
        rows.push(...(await turns(latestMs, Number.MAX_SAFE_INTEGER, limit - rows.length)))
      return rows.map(toDueCheck)
    },

    async note(checks) {
      for (let i = 0; i < checks.length; i += CHECKS_AT_ONCE)
        await healthChecks.note(checks.slice(i, i + CHECKS_AT_ONCE))
    },

    async putOff(linkIds, toMs) {
      if (linkIds.length > 0) await healthChecks.putOff(linkIds, toMs)
    },

    async hours(linkId, sinceMs) {
      const rows = await reads.all<HourRow>`
        SELECT hour, checks, failed, latency_sum_ms, latency_max_ms FROM check_hours
        WHERE link_id = ${linkId} AND hour >= ${Math.floor(sinceMs / HOUR_MS)} ORDER BY hour`
      return rows.map(toHourChecks)
    },
  }
}

const toDueCheck = (row: DueRow): DueCheck => ({
  linkId: row.link_id,
  storeId: row.store_id,
  url: row.url,
  upstreamHeadersSealed: row.upstream_headers_sealed,
  username: row.username,
  slug: row.slug,
})

const toHourChecks = (row: HourRow): HourChecks => ({
  hour: row.hour,
  checks: row.checks,
  failedChecks: row.failed,
  latencyMs: Math.round(row.latency_sum_ms / row.checks),
  maxLatencyMs: row.latency_max_ms,
})

interface EventRow {
  readonly link_id: string
  readonly at_ms: number
  readonly kind: HealthEvent['kind']
  readonly ok: number
  readonly status: number | null
  readonly latency_ms: number | null
  readonly detail: string
  readonly asked_by_seller: number
}

/** The health of a link as sellers and buyers see it. */
export const createTimeline = (
  { healthChecks }: { readonly healthChecks: CallsOf<typeof healthCheckWrites> },
  reads: Reads,
): Pick<Links, 'addHealthEvent' | 'healthEvents'> => ({
  addHealthEvent: healthChecks.addEvent,

  async healthEvents(id, limit) {
    // The latest check comes from link_checks. If it failed or was the first success after a failure, health_events already has it.
    const rows = await reads.all<EventRow>`
      SELECT * FROM (SELECT id, at_ms, link_id, kind, ok, status, latency_ms, detail, asked_by_seller
        FROM health_events WHERE link_id = ${id} ORDER BY at_ms DESC, id DESC LIMIT ${limit} + 0) AS kept
      UNION ALL
      SELECT 0, at_ms, link_id, 'probe', ok, status, latency_ms, detail, 0 FROM link_checks c
        WHERE link_id = ${id} AND at_ms IS NOT NULL AND NOT EXISTS (SELECT 1 FROM health_events h
          WHERE h.link_id = c.link_id AND h.at_ms = c.at_ms AND h.kind = 'probe' AND h.asked_by_seller = 0)
      ORDER BY at_ms DESC, id DESC LIMIT ${limit} + 0`
    return rows.map((row) => ({
      linkId: row.link_id,
      atMs: row.at_ms,
      kind: row.kind,
      ok: row.ok === 1,
      status: row.status,
      latencyMs: row.latency_ms,
      detail: row.detail,
      ...(row.asked_by_seller === 1 && { isRequestedBySeller: true }),
    }))
  },
})
