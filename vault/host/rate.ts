import type { Clock } from '../../core/ports/clock.ts'
import { VaultError } from '../errors/error.ts'

const windowMs = 60_000

/** Counts requests of a key in windows of a minute. @throws `RATE_LIMIT_EXCEEDED` with the seconds until the next one */
export function createRate(clock: Clock): (key: string, limit: number) => void {
  const counts = new Map<string, { count: number; endsAtMs: number }>()
  return (key, limit) => {
    const now = clock.now()
    let current = counts.get(key)
    if (current === undefined || now >= current.endsAtMs) {
      // Whoever came once and never again is forgotten here; a map of windows that are over has no other use.
      if (counts.size > 10_000) counts.clear()
      current = { count: 0, endsAtMs: now + windowMs }
      counts.set(key, current)
    }
    if (++current.count <= limit) return
    throw new VaultError('RATE_LIMIT_EXCEEDED', `Expected at most ${limit} requests a minute.`, {
      retryAfterSeconds: Math.max(1, Math.ceil((current.endsAtMs - now) / 1_000)),
    })
  }
}
