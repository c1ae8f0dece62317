import type { DatabaseSync } from 'node:sqlite'
import { CLOCK_BEHIND_MS } from '../../../core/ports/store/leases.ts'
import { hasEnded, thisProcess } from '../../sql/processName.ts'

/** How long a lease that is over is kept, so that a holder that was frozen may renew it while nobody took its name. */
const KEPT_MS = 10 * 60 * 1000

export interface TermArgs {
  readonly name: string
  readonly ttlMs: number
  readonly nowMs: number
}

/** The writes of the port Leases, inside the writer's transaction. */
export function leaseOperations(database: DatabaseSync) {
  const forget = database.prepare(`
    DELETE FROM leases WHERE expires_at_ms > :now + ttl_ms + ${CLOCK_BEHIND_MS} OR expires_at_ms <= :now - ${KEPT_MS}
      OR (name = :name AND expires_at_ms <= :now)`)
  const take = database.prepare(`
    INSERT INTO leases (name, ttl_ms, expires_at_ms, holder) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`)
  const holders = database.prepare('SELECT id, holder FROM leases WHERE holder IS NOT NULL')
  const renew = database.prepare('UPDATE leases SET ttl_ms = ?, expires_at_ms = ? WHERE id = ?')
  const release = database.prepare('DELETE FROM leases WHERE id = ?')

  return {
    /** Null while somebody has it. */
    takeLease({ name, ttlMs, nowMs }: TermArgs): number | null {
      forget.run({ now: nowMs, name })
      // Whoever was killed gives nothing back: the next process need not wait until its leases are over, nor do its payments.
      for (const { id, holder } of holders.all()) if (hasEnded(holder as string)) release.run(id!)
      const { changes, lastInsertRowid } = take.run(name, ttlMs, nowMs + ttlMs, thisProcess)
      return Number(changes) > 0 ? Number(lastInsertRowid) : null
    },
    renewLease: ({ id, ttlMs, nowMs }: Omit<TermArgs, 'name'> & { readonly id: number }): boolean =>
      Number(renew.run(ttlMs, nowMs + ttlMs, id).changes) > 0,
    releaseLease: (id: number): void => void release.run(id),
  }
}
