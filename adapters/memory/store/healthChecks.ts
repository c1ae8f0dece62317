import type { Link } from '../../../core/domain/link.ts'
import { HOUR_MS } from '../../../core/ports/store/figures.ts'
import { CHECKS_IN_TIMELINE, type Check, type HealthChecks } from '../../../core/ports/store/healthChecks.ts'
import type { HealthEvent } from '../../../core/ports/store/links.ts'
import type { Access } from './access.ts'
import type { Tables } from './memory.ts'

const KEPT_MS = 30 * 24 * HOUR_MS

/** Health checks in memory: sums by the hour, of which days are added up. */
export function createHealthChecks(tables: Tables, { read, write }: Access): HealthChecks {
  const { linkChecks, checkHours, links, stores } = tables
  return {
    due: ({ queue, nowMs, latestMs, limit }) =>
      read(() => {
        const own = linkChecks.keys().flatMap((id) => {
          const row = linkChecks.get(id)!
          return row.queue === queue && row.dueAtMs !== null ? [{ id, dueAtMs: row.dueAtMs }] : []
        })
        const overdue = own.filter(({ dueAtMs }) => dueAtMs <= nowMs)
        const strays = own.filter(({ dueAtMs }) => dueAtMs > latestMs)
        return [overdue, strays]
          .flatMap((some) => some.sort((a, b) => a.dueAtMs - b.dueAtMs))
          .slice(0, limit)
          .map(({ id }) => {
            const { storeId, url, upstreamHeadersSealed, isStealth, privateSlug, slug } = links.get(id)!
            return {
              ...{ linkId: id, storeId, url, upstreamHeadersSealed },
              ...{ username: stores.get(storeId)!.username, slug: isStealth ? privateSlug! : slug },
            }
          })
      }),

    note: (checks) => write('visible', () => noteChecks(tables, checks)),

    putOff: (linkIds, toMs) =>
      write('visible', () => {
        for (const id of linkIds) {
          const row = linkChecks.get(id)
          if (row !== undefined && row.dueAtMs !== null) linkChecks.set(id, { ...row, dueAtMs: toMs })
        }
      }),

    hours: (linkId, sinceMs) =>
      read(() =>
        checkHours
          .values()
          .filter((one) => one.linkId === linkId && one.hour >= Math.floor(sinceMs / HOUR_MS))
          .sort((a, b) => a.hour - b.hour)
          .map(({ hour, checks, failed, sumMs, maxMs }) => ({
            ...{ hour, checks, failedChecks: failed },
            ...{ latencyMs: Math.round(sumMs / checks), maxLatencyMs: maxMs },
          })),
      ),
  }
}

/** Gives a link its turn, or takes it, after it changed. */
export function setTurn({ linkChecks }: Tables, link: Link, before: Link | undefined): void {
  if (isAsked(before) === isAsked(link) && before?.url === link.url) return
  const row = linkChecks.get(link.id) ?? { dueAtMs: null, queue: 'rest', calledAtMs: 0, last: null }
  linkChecks.set(link.id, { ...row, dueAtMs: isAsked(link) ? link.updatedAtMs : null })
}

const isAsked = (link: Link | undefined): boolean =>
  link?.isActive === true && link.linkType === 'api' && link.suspension === null

/** See {@link HealthChecks.note}. */
export function noteChecks({ linkChecks, checkHours, health }: Tables, checks: readonly Check[]): void {
  for (const { next, ...seen } of checks) {
    const { linkId, atMs, ok } = seen
    const latencyMs = seen.latencyMs === null ? null : Math.round(seen.latencyMs)
    const event: HealthEvent = { ...seen, latencyMs, kind: 'probe' }
    const row = linkChecks.get(linkId) ?? { dueAtMs: null, queue: 'rest', calledAtMs: 0, last: null }
    const isTold = !ok || row.last?.ok === false
    const young = (health.get(linkId) ?? []).filter((one) => one.atMs >= atMs - KEPT_MS)
    const kept = isTold ? [...young, event] : young
    const isOwn = (one: HealthEvent) => one.kind === 'probe' && !one.isAskedBySeller
    const tooMany = new Set(kept.filter(isOwn).slice(0, -CHECKS_IN_TIMELINE))
    health.set(
      linkId,
      kept.filter((one) => !tooMany.has(one)),
    )
    const isCalled = next !== undefined && row.calledAtMs > next.calledSinceMs && row.calledAtMs <= atMs
    linkChecks.set(linkId, {
      ...row,
      last: event,
      ...(next !== undefined && {
        dueAtMs: row.dueAtMs === null ? null : next.atMs,
        queue: isCalled ? 'called' : next.isFailing ? 'failing' : 'rest',
      }),
    })
    const hour = Math.floor(atMs / HOUR_MS)
    const key = `${linkId} ${hour}`
    const sum = checkHours.get(key) ?? { linkId, hour, checks: 0, failed: 0, sumMs: 0, maxMs: 0 }
    checkHours.set(key, {
      ...sum,
      ...{ checks: sum.checks + 1, failed: sum.failed + Number(!ok) },
      ...{ sumMs: sum.sumMs + (latencyMs ?? 0), maxMs: Math.max(sum.maxMs, latencyMs ?? 0) },
    })
  }
}
