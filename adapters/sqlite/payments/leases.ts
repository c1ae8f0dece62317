import type { Clock } from '../../../core/ports/clock.ts'
import { CLOCK_BEHIND_MS, type LeaseHolder, type Leases } from '../../../core/ports/store/leases.ts'
import { hasEnded, pidOf, thisProcess } from '../../sql/processName.ts'
import type { Schema } from '../../sql/schema.ts'
import type { Database } from '../database.ts'
import { reading } from '../failure.ts'

/** Leases in SQLite. `storeClock` is the machine's, so all processes that can use the file have the same. */
export function createLeases({ reader, writer }: Database, storeClock: Clock): Leases {
  const ofName = reader.prepare('SELECT id, ttl_ms, expires_at_ms, holder FROM leases WHERE name = ?')
  const ofPrefix = reader.prepare('SELECT name FROM leases WHERE substr(name, 1, length(?1)) = ?1')

  async function holderOf(name: string): Promise<LeaseHolder | undefined> {
    const row = reading(() => ofName.get(name)) as unknown as Schema['leases'] | undefined
    if (row === undefined || (row.holder !== null && hasEnded(row.holder))) return undefined
    const endsInMs = row.expires_at_ms - storeClock.now()
    if (endsInMs <= 0 || endsInMs > row.ttl_ms + CLOCK_BEHIND_MS) return undefined
    return { id: row.id, endsInMs, process: processOf(row.holder) }
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
