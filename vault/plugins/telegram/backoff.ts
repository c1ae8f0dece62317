import { setTimeout as delay } from 'node:timers/promises'
import type { Failure } from './failure.ts'

/** Timers of Node count no further than 2^31 - 1 ms, and take more for nothing at all. */
const LONGEST_WAIT_MS = 86_400_000

/** Waits between tries: longer each time, at least as long as the other side asked for, up to a day. */
export interface Backoff {
  /** Fulfilled when it is time to try again, or at once when `signal` is aborted. */
  wait(failure: Failure, signal: AbortSignal): Promise<void>
  /** It worked: the next failure waits the shortest time again. */
  reset(): void
}

export function createBackoff(minMs: number, maxMs: number): Backoff {
  let nextMs = minMs
  return {
    async wait({ retryAfterMs = 0 }, signal) {
      // Up to a fifth more, so that several do not come back in step.
      const ms = Math.min(Math.max(nextMs * (1 + Math.random() / 5), retryAfterMs), LONGEST_WAIT_MS)
      nextMs = Math.min(nextMs * 2, maxMs)
      await delay(ms, undefined, { signal, ref: false }).catch(() => undefined)
    },
    reset() {
      nextMs = minMs
    },
  }
}
