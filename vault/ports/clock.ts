import { performance } from 'node:perf_hooks'
import type { Clock } from '../../core/ports/clock.ts'

/**
 * The vault's two clocks. An administrator can set the wall clock. The monotonic clock cannot be set, but stops while a laptop
 * sleeps. So a deadline passes as soon as either clock reaches it.
 */
export interface VaultClock extends Clock {
  /** Time in ms since an arbitrary start. It never goes back while the process lives. */
  monotonicMs(): number
}

/** Returns a function that checks whether this many ms have passed by either clock. */
export function endsIn(clock: VaultClock, ms: number): () => boolean {
  const atMs = clock.now() + ms
  const atMonotonicMs = clock.monotonicMs() + ms
  return () => clock.now() >= atMs || clock.monotonicMs() >= atMonotonicMs
}

export const systemVaultClock: VaultClock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
}
