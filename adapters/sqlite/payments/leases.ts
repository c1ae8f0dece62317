import type { Clock } from '../../../core/ports/clock.ts'
import type { LeaseHolder, Leases } from '../../../core/ports/store/leases.ts'
import { leaseRuns } from '../../sql/leaseRuns.ts'
import { hasEnded, pidOf, thisProcess } from '../../sql/processName.ts'
import type { Database } from '../database.ts'
import { reading } from '../failure.ts'

/** Leases in SQLite. `storeClock` is the machine's, so all processes that can use the file have the same. */
export function createLeases({ reader, writer }: Database, storeClock: Clock): Leases {
  const ofName = reader.prepare(
    `SELECT id, expires_at_ms - ?2 AS ends_in_ms, holder FROM leases WHERE name = ?1 AND ${leaseRuns('?2')}`,
  )
  const ofPrefix = reader.prepare('SELECT name FROM leases WHERE substr(name, 1, length(?1)) = ?1')

  async function holderOf(name: string): Promise<LeaseHolder | undefined> {
    const row = reading(() => ofName.get(name, storeClock.now()))
    if (row === undefined) return undefined
    const holder = row['holder'] as string | null
    if (holder !== null && hasEnded(holder)) return undefined
    return { id: Number(row['id']), endsInMs: Number(row['ends_in_ms']), process: processOf(holder) }
  }

  return {
    holderOf,

    async heldNames(prefix) {
      const names = reading(() => ofPrefix.all(prefix)).map(({ name }) => String(name))
      const holders = await Promise.all(names.map(holderOf))
      return names.filter((_, i) => holders[i] !== undefined)
    },

    async take(name, ttlMs) {
      const id = await writer.write('takeLease', { name, ttlMs, nowMs: storeClock.now() })
      return id === null ? undefined : { id, name }
    },
    renew: ({ id }, ttlMs) => writer.write('renewLease', { id, ttlMs, nowMs: storeClock.now() }, 'visible'),
    release: ({ id }) => writer.write('releaseLease', id, 'visible'),
  }
}

const processOf = (holder: string | null) =>
  holder === null ? null : { id: pidOf(holder), isThis: holder === thisProcess }
