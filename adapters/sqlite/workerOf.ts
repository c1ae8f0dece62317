import type { DatabaseSync } from 'node:sqlite'
import { leaseRuns } from '../sql/leaseRuns.ts'
import { hasEnded, isThere, pidOf } from '../sql/processName.ts'

/** A process that works on a database file, or would go on with it. */
export interface FileWorker {
  /** Its number; undefined where the system does not say. */
  readonly pid: number | undefined
  /** Its lease is over and it is there all the same: stopped, or on a machine that was. It goes on when it is woken. */
  readonly standsStill: boolean
}

/**
 * Who works on a database file, as far as its leases tell. One that was killed where nobody sees it counts until its lease is over, and
 * one that stands still where nobody sees it until then.
 */
export function workerOf(database: DatabaseSync, nowMs: number): FileWorker | undefined {
  if (database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'leases'").get() === undefined)
    return undefined
  const leases = database
    .prepare(`SELECT holder, ${leaseRuns('?1')} AS runs FROM leases`)
    .all(nowMs)
    .map(({ holder, runs }) => ({ name: holder === null ? undefined : String(holder), runs: runs === 1 }))
  const worker =
    leases.find(({ name, runs }) => runs && (name === undefined || !hasEnded(name))) ??
    leases.find(({ name }) => name !== undefined && isThere(name))
  return (
    worker && { pid: worker.name === undefined ? undefined : pidOf(worker.name), standsStill: !worker.runs }
  )
}
