import type { DirectStore } from './directStore.ts'
import type { Seeded } from './seeded.ts'
import { DAY_MS, type Seller } from './sellers.ts'

const HOUR_MS = 60 * 60 * 1000
/** So long links have been asked whether they answer. */
const PROBED_DAYS = 30
/** Single probes that lie there of each link: a gateway keeps a month of them, one a minute. */
const PROBES_KEPT = 5
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
  // What a month of health checks comes to, in the place of forty thousand rows a link: the trigger would count each of them.
  const { connection } = direct
  const today = Math.floor(nowMs / DAY_MS)
  connection.exec(`
    WITH RECURSIVE days (day) AS (SELECT ${today - PROBED_DAYS} UNION ALL SELECT day + 1 FROM days WHERE day < ${today - 1})
    INSERT INTO link_days (link_id, day, probes, failed_probes)
      SELECT id, day, 1440, 3 FROM (SELECT id FROM links WHERE is_active = 1 ORDER BY id) CROSS JOIN days WHERE true
      ON CONFLICT (link_id, day) DO UPDATE SET probes = excluded.probes, failed_probes = excluded.failed_probes`)
  for (let back = PROBES_KEPT; back > 0; back--)
    connection.exec(`
      INSERT INTO health_events (link_id, at_ms, kind, ok, status, latency_ms, detail)
        SELECT id, ${nowMs} - ${back * 60_000}, 'probe', 1, 200, 12, 'Answered with status 200.' FROM links WHERE is_active = 1 ORDER BY id`)
}
