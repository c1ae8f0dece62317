import { performance } from 'node:perf_hooks'
import type { Clock } from '../../core/ports/clock.ts'

/**
 * The vault's two times. Wall time can be set by whoever administers the machine; the monotonic one can not, but stands
 * still while a laptop sleeps. What must end in time ends when either of them says so.
 */
export interface VaultClock extends Clock {
  /** Milliseconds since an unnamed start; never goes back while the process lives. */
  monotonicMs(): number
}

/** Whether so many milliseconds from now have gone by, as soon as one of the two times says so. */
export function endsIn(clock: VaultClock, ms: number): () => boolean {
  const atMs = clock.now() + ms
  const atMonotonicMs = clock.monotonicMs() + ms
  return () => clock.now() >= atMs || clock.monotonicMs() >= atMonotonicMs
}

export const systemVaultClock: VaultClock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
}
