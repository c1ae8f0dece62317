import {
  CHECK_HOURS_KEPT,
  CHECKS_AT_ONCE,
  CHECKS_IN_TIMELINE,
  type Check,
  type HealthChecks,
} from '../../core/ports/store/healthChecks.ts'
import { HEALTH_KEPT_MS, queueNumbers, toDueCheck, toHourChecks } from '../sql/links/checkRows.ts'
import type { Database } from './database.ts'
import { reading } from './failure.ts'
import type { Statement } from './statement.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

/** Health checks in SQLite: a row a link, which says when its turn is, and sums by hour and day. */
export function createHealthChecks({ reader, writer }: Database): HealthChecks {
  const turns = (condition: string) =>
    reader.prepare(`SELECT c.link_id, l.store_id, l.url, l.upstream_headers_sealed, s.username,
        CASE WHEN l.is_stealth = 1 THEN l.private_slug ELSE l.slug END AS slug
      FROM (SELECT link_id FROM link_checks INDEXED BY link_checks_due
          WHERE queue = ?1 AND ${condition} ORDER BY due_at_ms LIMIT ?3) c
        CROSS JOIN links l ON l.id = c.link_id CROSS JOIN stores s ON s.id = l.store_id`)
  const dueRows = turns('due_at_ms <= ?2')
  const strayRows = turns('due_at_ms > ?2')
  const hourRows = reader.prepare(
    'SELECT hour, checks, failed, latency_sum_ms, latency_max_ms FROM check_hours WHERE link_id = ? AND hour >= ? ORDER BY hour',
  )

  return {
    async due({ queue, nowMs, latestMs, limit }) {
      const rows = reading(() => {
        const found = dueRows.all(queueNumbers[queue], nowMs, limit)
        return found.length < limit
          ? [...found, ...strayRows.all(queueNumbers[queue], latestMs, limit - found.length)]
          : found
      })
      return rows.map(toDueCheck)
    },

    async note(checks) {
      for (let i = 0; i < checks.length; i += CHECKS_AT_ONCE)
        await writer.write('runAll', noteChecks(checks.slice(i, i + CHECKS_AT_ONCE)), 'visible')
    },

    async putOff(linkIds, toMs) {
      if (linkIds.length === 0) return
      const sql = `UPDATE link_checks SET due_at_ms = ?2
        WHERE link_id IN (SELECT value FROM json_each(?1)) AND due_at_ms IS NOT NULL`
      await writer.write('run', { sql, parameters: [JSON.stringify(linkIds), toMs] }, 'visible')
    },

    async hours(linkId, sinceMs) {
      const rows = reading(() => hourRows.all(linkId, Math.floor(sinceMs / HOUR_MS)))
      return rows.map(toHourChecks)
    },
  }
}

const addHours = `ON CONFLICT (link_id, hour) DO UPDATE SET checks = checks + excluded.checks, failed = failed + excluded.failed,
  latency_sum_ms = latency_sum_ms + excluded.latency_sum_ms, latency_max_ms = max(latency_max_ms, excluded.latency_max_ms)`

/** Statements that note what was seen; see {@link HealthChecks.note}. */
export function noteChecks(checks: readonly Check[]): Statement[] {
  const rows = checks.map(({ linkId, atMs, ok, status, latencyMs, detail, next }) => ({
    ...{ linkId, atMs, ok: Number(ok), status, detail },
    ...{ latencyMs: latencyMs === null ? null : Math.round(latencyMs) },
    ...{ nextAtMs: next?.atMs ?? null, isFailing: Number(next?.isFailing ?? false) },
    calledSinceMs: next?.calledSinceMs ?? null,
  }))
  const json = JSON.stringify(rows)
  const links = JSON.stringify([...new Set(checks.map(({ linkId }) => linkId))])
  const lastMs = Math.max(...checks.map(({ atMs }) => atMs))
  return [
    {
      sql: `INSERT INTO health_events (link_id, at_ms, kind, ok, status, latency_ms, detail)
        SELECT value ->> 'linkId', value ->> 'atMs', 'probe', value ->> 'ok', value ->> 'status', value ->> 'latencyMs',
          value ->> 'detail'
        FROM json_each(?) LEFT JOIN link_checks c ON c.link_id = value ->> 'linkId'
        WHERE value ->> 'ok' = 0 OR c.ok = 0`,
      parameters: [json],
    },
    {
      sql: `INSERT INTO link_checks (link_id, at_ms, ok, status, latency_ms, detail, due_at_ms, queue, called_at_ms)
        SELECT value ->> 'linkId', value ->> 'atMs', value ->> 'ok', value ->> 'status', value ->> 'latencyMs',
          value ->> 'detail', value ->> 'nextAtMs', value ->> 'isFailing', coalesce(value ->> 'calledSinceMs', 0)
        FROM json_each(?) WHERE true
        ON CONFLICT (link_id) DO UPDATE SET at_ms = excluded.at_ms, ok = excluded.ok, status = excluded.status,
          latency_ms = excluded.latency_ms, detail = excluded.detail,
          due_at_ms = CASE WHEN due_at_ms IS NULL THEN NULL ELSE coalesce(excluded.due_at_ms, due_at_ms) END,
          queue = CASE WHEN excluded.due_at_ms IS NULL THEN queue
            WHEN called_at_ms > excluded.called_at_ms AND called_at_ms <= excluded.at_ms THEN 2 ELSE excluded.queue END`,
      parameters: [json],
    },
    {
      sql: `INSERT INTO check_hours (link_id, hour, checks, failed, latency_sum_ms, latency_max_ms)
        SELECT value ->> 'linkId', (value ->> 'atMs') / ${HOUR_MS}, 1, 1 - (value ->> 'ok'),
          coalesce(value ->> 'latencyMs', 0), coalesce(value ->> 'latencyMs', 0)
        FROM json_each(?) WHERE true ${addHours}`,
      parameters: [json],
    },
    {
      sql: 'DELETE FROM check_hours WHERE link_id IN (SELECT value FROM json_each(?)) AND hour < ?',
      parameters: [links, Math.floor(lastMs / HOUR_MS) - CHECK_HOURS_KEPT],
    },
    {
      sql: `INSERT INTO link_days (link_id, day, probes, failed_probes)
        SELECT value ->> 'linkId', (value ->> 'atMs') / ${DAY_MS}, 1, 1 - (value ->> 'ok') FROM json_each(?) WHERE true
        ON CONFLICT (link_id, day) DO UPDATE
          SET probes = probes + 1, failed_probes = failed_probes + excluded.failed_probes`,
      parameters: [json],
    },
    {
      sql: 'DELETE FROM health_events WHERE link_id IN (SELECT value FROM json_each(?)) AND at_ms < ?',
      parameters: [links, lastMs - HEALTH_KEPT_MS],
    },
    ...checks
      .filter(({ ok }) => !ok)
      .map(({ linkId }) => ({
        sql: `DELETE FROM health_events WHERE id IN (SELECT id FROM health_events INDEXED BY health_events_link
          WHERE link_id = ? AND kind = 'probe' AND asked_by_seller = 0
          ORDER BY at_ms DESC, id DESC LIMIT 10 OFFSET ${CHECKS_IN_TIMELINE})`,
        parameters: [linkId],
      })),
  ]
}
