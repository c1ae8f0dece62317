import { sql, type Transaction } from 'kysely'
import {
  CHECK_HOURS_KEPT,
  CHECKS_AT_ONCE,
  CHECKS_IN_TIMELINE,
  type Check,
  type HealthChecks,
} from '../../../core/ports/store/healthChecks.ts'
import { HEALTH_KEPT_MS, queueNumbers, toDueCheck, toHourChecks } from '../../sql/links/checkRows.ts'
import type { Row } from '../../sql/row.ts'
import type { Schema } from '../../sql/schema.ts'
import type { Database } from '../database.ts'
import { transact } from '../transact.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

/** Health checks in PostgreSQL: a row a link, which says when its turn is, and sums by hour and day. */
export function createHealthChecks(database: Pick<Database, 'query'>): HealthChecks {
  const { query } = database

  return {
    async due({ queue, nowMs, latestMs, limit }) {
      const turns = async (when: ReturnType<typeof sql>, most: number) => {
        const { rows } = await sql<Row>`
          SELECT c.link_id, l.store_id, l.url, l.upstream_headers_sealed, s.username,
            CASE WHEN l.is_stealth = 1 THEN l.private_slug ELSE l.slug END AS slug
          FROM (SELECT link_id, due_at_ms FROM link_checks
              WHERE queue = ${queueNumbers[queue]} AND ${when} ORDER BY due_at_ms LIMIT ${most}) c
            JOIN links l ON l.id = c.link_id JOIN stores s ON s.id = l.store_id
          ORDER BY c.due_at_ms`.execute(query)
        return rows
      }
      const rows = await turns(sql`due_at_ms <= ${nowMs}`, limit)
      if (rows.length < limit) rows.push(...(await turns(sql`due_at_ms > ${latestMs}`, limit - rows.length)))
      return rows.map(toDueCheck)
    },

    async note(checks) {
      for (let i = 0; i < checks.length; i += CHECKS_AT_ONCE) {
        const some = checks.slice(i, i + CHECKS_AT_ONCE)
        await transact(database, (transaction) => noteChecks(transaction, some), 'visible')
      }
    },

    async putOff(linkIds, toMs) {
      if (linkIds.length === 0) return
      await transact(
        database,
        (transaction) =>
          sql`UPDATE link_checks SET due_at_ms = ${toMs} WHERE due_at_ms IS NOT NULL AND link_id IN (
            SELECT link_id FROM link_checks WHERE link_id = any(${linkIds}::text[]) ORDER BY link_id FOR UPDATE)`.execute(
            transaction,
          ),
        'visible',
      )
    },

    async hours(linkId, sinceMs) {
      const { rows } = await sql<Row>`
        SELECT hour, checks, failed, latency_sum_ms, latency_max_ms FROM check_hours
        WHERE link_id = ${linkId} AND hour >= ${Math.floor(sinceMs / HOUR_MS)} ORDER BY hour`.execute(query)
      return rows.map(toHourChecks)
    },
  }
}

/** Notes what was seen; see {@link HealthChecks.note}. Links are locked in the order of their ids. */
export async function noteChecks(transaction: Transaction<Schema>, checks: readonly Check[]): Promise<void> {
  const ids = [...new Set(checks.map(({ linkId }) => linkId))].sort()
  const run = (statement: ReturnType<typeof sql>) => statement.execute(transaction)
  await run(sql`SELECT FROM link_checks WHERE link_id = any(${ids}::text[]) ORDER BY link_id FOR UPDATE`)
  await run(sql`
    INSERT INTO health_events (link_id, at_ms, kind, ok, status, latency_ms, detail)
    SELECT n.link_id, n.at_ms, 'probe', n.ok, n.status, n.latency_ms, n.detail
    FROM ${seenRows(checks)} LEFT JOIN link_checks c ON c.link_id = n.link_id
    WHERE n.ok = 0 OR c.ok = 0 ORDER BY n.number`)
  await run(sql`
    INSERT INTO link_checks AS c (link_id, at_ms, ok, status, latency_ms, detail, due_at_ms, queue, called_at_ms)
    SELECT link_id, at_ms, ok, status, latency_ms, detail, next_at_ms, is_failing, coalesce(called_since_ms, 0)
    FROM ${seenRows(lastOfEach(checks))} ORDER BY link_id
    ON CONFLICT (link_id) DO UPDATE SET at_ms = excluded.at_ms, ok = excluded.ok, status = excluded.status,
      latency_ms = excluded.latency_ms, detail = excluded.detail,
      due_at_ms = CASE WHEN c.due_at_ms IS NULL THEN NULL ELSE coalesce(excluded.due_at_ms, c.due_at_ms) END,
      queue = CASE WHEN excluded.due_at_ms IS NULL THEN c.queue
        WHEN c.called_at_ms > excluded.called_at_ms AND c.called_at_ms <= excluded.at_ms THEN 2
        ELSE excluded.queue END`)
  await run(sql`
    INSERT INTO check_hours AS c (link_id, hour, checks, failed, latency_sum_ms, latency_max_ms)
    SELECT link_id, at_ms / ${HOUR_MS}::bigint, count(*), count(*) FILTER (WHERE ok = 0), coalesce(sum(latency_ms), 0),
      coalesce(max(latency_ms), 0)
    FROM ${seenRows(checks)} GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (link_id, hour) DO UPDATE SET checks = c.checks + excluded.checks, failed = c.failed + excluded.failed,
      latency_sum_ms = c.latency_sum_ms + excluded.latency_sum_ms,
      latency_max_ms = greatest(c.latency_max_ms, excluded.latency_max_ms)`)
  await run(sql`
    INSERT INTO link_days AS d (link_id, day, probes, failed_probes)
    SELECT link_id, at_ms / ${DAY_MS}::bigint, count(*), count(*) FILTER (WHERE ok = 0)
    FROM ${seenRows(checks)} GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (link_id, day) DO UPDATE
      SET probes = d.probes + excluded.probes, failed_probes = d.failed_probes + excluded.failed_probes`)
  await forget(transaction, ids, checks)
}

/** What the timeline and the hours keep no longer. */
async function forget(
  transaction: Transaction<Schema>,
  ids: readonly string[],
  checks: readonly Check[],
): Promise<void> {
  const lastMs = Math.max(...checks.map(({ atMs }) => atMs))
  const failing = [...new Set(checks.filter(({ ok }) => !ok).map(({ linkId }) => linkId))]
  await sql`DELETE FROM check_hours
    WHERE link_id = any(${ids}::text[]) AND hour < ${Math.floor(lastMs / HOUR_MS) - CHECK_HOURS_KEPT}`.execute(
    transaction,
  )
  await sql`DELETE FROM health_events
    WHERE link_id = any(${ids}::text[]) AND at_ms < ${lastMs - HEALTH_KEPT_MS}`.execute(transaction)
  if (failing.length === 0) return
  await sql`DELETE FROM health_events WHERE id IN (
    SELECT old.id FROM unnest(${failing}::text[]) AS f (link_id) CROSS JOIN LATERAL (
      SELECT id FROM health_events h WHERE h.link_id = f.link_id AND kind = 'probe' AND asked_by_seller = 0
      ORDER BY at_ms DESC, id DESC LIMIT 10 OFFSET ${CHECKS_IN_TIMELINE}) old)`.execute(transaction)
}

/** The checks as a table `n`. */
function seenRows(checks: readonly Check[]) {
  const column = <T>(of: (check: Check) => T) => sql.val(checks.map(of))
  return sql`unnest(
    ${column((c) => c.linkId)}::text[], ${column((c) => c.atMs)}::bigint[], ${column((c) => Number(c.ok))}::smallint[],
    ${column((c) => c.status)}::bigint[],
    ${column(({ latencyMs }) => (latencyMs === null ? null : Math.round(latencyMs)))}::bigint[],
    ${column((c) => c.detail)}::text[], ${column((c) => c.next?.atMs ?? null)}::bigint[],
    ${column((c) => Number(c.next?.isFailing ?? false))}::bigint[],
    ${column((c) => c.next?.calledSinceMs ?? null)}::bigint[]
  ) WITH ORDINALITY
    AS n (link_id, at_ms, ok, status, latency_ms, detail, next_at_ms, is_failing, called_since_ms, number)`
}

/** Of each link what was seen last, and its last turn: a statement changes a row once. */
function lastOfEach(checks: readonly Check[]): Check[] {
  const last = new Map<string, Check>()
  for (const check of checks) {
    const next = check.next ?? last.get(check.linkId)?.next
    last.set(check.linkId, { ...check, ...(next !== undefined && { next }) })
  }
  return [...last.values()]
}
