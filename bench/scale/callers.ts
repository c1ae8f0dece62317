import { CHECK_HOURS_KEPT, type Check } from '../../core/ports/store/healthChecks.ts'
import type { DirectStore } from './directStore.ts'
import type { Seeded } from './seeded.ts'
import { DAY_MS, type Seller } from './sellers.ts'

const HOUR_MS = 60 * 60 * 1000
/** So long links have been asked whether they answer. */
const PROBED_DAYS = 30
/** Of these the last ones are noted one by one, and of so many links one was not well at first. */
const LATEST_CHECKS = { hours: 3, failing: 50 }
/** Between two checks of a link that nobody calls, as far as it is known here: the turns lie spread over it. */
const TURNS_MS = HOUR_MS
/** Every so many links of a store are called each hour of the last days. */
const BUSY = { each: 50, hours: 48 }

const NOTED_AT_ONCE = 1_000

/** Who looked at links and called them lately, and the health checks of a month. */
export async function callAll(
  direct: DirectStore,
  seeded: Seeded,
  sellers: readonly Seller[],
  nowMs: number,
): Promise<void> {
  const hour = Math.floor(nowMs / HOUR_MS)
  for (const { links } of sellers) {
    for (let i = 0; i < links.length; i += BUSY.each) {
      const linkId = links[i]!.id
      const rows = Array.from({ length: BUSY.hours }, (_, back) => {
        const views = 1 + seeded.few(40)
        return {
          linkId,
          hour: hour - back,
          views,
          challenges: views * 2,
          calls: views,
          failedCalls: seeded.few(2),
        }
      })
      await direct.figures.addTraffic(rows)
    }
  }
  // What a month of health checks comes to, in the place of forty thousand of each link.
  const { connection } = direct
  const today = Math.floor(nowMs / DAY_MS)
  connection.exec(`
    WITH RECURSIVE days (day) AS (SELECT ${today - PROBED_DAYS} UNION ALL SELECT day + 1 FROM days WHERE day < ${today - 1})
    INSERT INTO link_days (link_id, day, probes, failed_probes)
      SELECT id, day, 1440, 3 FROM (SELECT id FROM links WHERE is_active = 1 ORDER BY id) CROSS JOIN days WHERE true
      ON CONFLICT (link_id, day) DO UPDATE SET probes = excluded.probes, failed_probes = excluded.failed_probes`)
  const hours = Array.from(
    { length: CHECK_HOURS_KEPT - LATEST_CHECKS.hours },
    (_, n) => `(${hour - LATEST_CHECKS.hours - n - 1})`,
  )
  connection.exec(`
    WITH hours (hour) AS (VALUES ${hours.join()})
    INSERT INTO check_hours (link_id, hour, checks, failed, latency_sum_ms, latency_max_ms)
      SELECT link_id, hour, 1, 0, 12, 12 FROM (SELECT link_id FROM link_checks ORDER BY link_id) CROSS JOIN hours`)
  const asked = sellers.flatMap(({ links }) => links.filter(({ linkType }) => linkType === 'api'))
  for (let back = LATEST_CHECKS.hours; back > 0; back--) {
    for (let from = 0; from < asked.length; from += NOTED_AT_ONCE) {
      const checks = asked.slice(from, from + NOTED_AT_ONCE).map(({ id: linkId }, i): Check => {
        const ok = (from + i) % LATEST_CHECKS.failing > 0 || back < LATEST_CHECKS.hours
        const status = ok ? 200 : 503
        const atMs = nowMs - back * HOUR_MS
        const next = {
          atMs: nowMs + Math.floor(TURNS_MS * seeded.random()),
          isFailing: false,
          calledSinceMs: atMs,
        }
        return { linkId, atMs, ok, status, latencyMs: 12, detail: `Answered with status ${status}.`, next }
      })
      await direct.healthChecks.note(checks)
    }
  }
}
