import type { Clock } from '../../../core/ports/clock.ts'
import type { Leases } from '../../../core/ports/leases.ts'
import type { Database } from '../database.ts'

/** Leases in SQLite. `storeClock` is the machine's, so all processes that can use the file have the same. */
export function createLeases({ writer }: Database, storeClock: Clock): Leases {
  return {
    async take(name, ttlMs) {
      const id = await writer.write('takeLease', { name, ttlMs, nowMs: storeClock.now() })
      return id === null ? undefined : { id, name }
    },
    renew: ({ id }, ttlMs) => writer.write('renewLease', { id, ttlMs, nowMs: storeClock.now() }, 'visible'),
    release: ({ id }) => writer.write('releaseLease', id, 'visible'),
  }
}
