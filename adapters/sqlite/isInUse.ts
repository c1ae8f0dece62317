import type { DatabaseSync } from 'node:sqlite'
import { hasEnded } from '../sql/processName.ts'

/** Whether some process that is not known to have ended has a lease. One that was killed where nobody sees it counts until that is over. */
export function isInUse(database: DatabaseSync, nowMs: number): boolean {
  if (database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'leases'").get() === undefined) return false
  return database
    .prepare('SELECT holder FROM leases WHERE expires_at_ms > ?1 AND expires_at_ms <= ?1 + ttl_ms')
    .all(nowMs)
    .some(({ holder }) => holder === null || !hasEnded(String(holder)))
}
