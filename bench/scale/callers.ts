import { CHECK_HOURS_KEPT } from '../../core/ports/healthChecks.ts'
import type { DirectStore } from './directStore.ts'
import type { Seeded } from './seeded.ts'
import { DAY_MS, type Seller } from './sellers.ts'

const HOUR_MS = 60 * 60 * 1000
/** So long links have been asked whether they answer. */
const PROBED_DAYS = 30
/** Every so many links of a store are called each hour of the last days. */
const BUSY = { each: 50, hours: 48 }

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
  // What a month of health checks comes to.
  const { connection } = direct
  const today = Math.floor(nowMs / DAY_MS)
  connection.exec(`
    WITH RECURSIVE days (day) AS (SELECT ${today - PROBED_DAYS} UNION ALL SELECT day + 1 FROM days WHERE day < ${today - 1})
    INSERT INTO link_days (link_id, day, probes, failed_probes)
      SELECT id, day, 1440, 3 FROM (SELECT id FROM links WHERE is_active = 1 ORDER BY id) CROSS JOIN days WHERE true
      ON CONFLICT (link_id, day) DO UPDATE SET probes = excluded.probes, failed_probes = excluded.failed_probes`)
  const hours = Array.from({ length: CHECK_HOURS_KEPT }, (_, back) => `(${hour - back})`)
  connection.exec(`
    WITH hours (hour) AS (VALUES ${hours.join()})
    INSERT INTO check_hours (link_id, hour, checks, failed, latency_sum_ms, latency_max_ms)
      SELECT link_id, hour, 1, 0, 12, 12 FROM (SELECT link_id FROM link_checks ORDER BY link_id) CROSS JOIN hours;
    UPDATE link_checks SET at_ms = ${nowMs} - 60000, ok = 1, status = 200, latency_ms = 12,
      detail = 'Answered with status 200.', due_at_ms = ${nowMs} - abs(random()) % 3600000`)
}
