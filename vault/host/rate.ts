import type { Clock } from '../../core/ports/clock.ts'
import { VaultError } from '../errors/error.ts'

const minuteMs = 60_000
/** Keys that are remembered before those that have rested are forgotten. */
const mostKeys = 10_000

/**
 * Counts requests of a key as a bucket that holds a minute's worth and fills steadily: `limit` at once, and `limit` a minute
 * for as long as it goes on; no turn of a minute gives twice of it. @throws `RATE_LIMIT_EXCEEDED` with the seconds until the next one
 */
export function createRate(clock: Clock): (key: string, limit: number) => void {
  const buckets = new Map<string, { spent: number; atMs: number }>()
  const spentOf = (key: string, limit: number, now: number): number => {
    const bucket = buckets.get(key)
    if (bucket === undefined) return 0
    const passedMs = Math.max(0, now - bucket.atMs)
    return Math.max(0, bucket.spent - (passedMs * limit) / minuteMs)
  }
  return (key, limit) => {
    const now = clock.now()
    // What came within a bound that is lower now is not held against it for longer than a minute.
    const spent = Math.min(spentOf(key, limit, now), limit)
    const isOver = spent + 1 > limit
    if (buckets.size >= mostKeys && !buckets.has(key)) forgetRested(buckets, now)
    buckets.set(key, { spent: isOver ? spent : spent + 1, atMs: now })
    if (!isOver) return
    throw new VaultError('RATE_LIMIT_EXCEEDED', `Expected at most ${limit} requests a minute.`, {
      retryAfterSeconds: Math.max(1, Math.ceil(((spent + 1 - limit) * minuteMs) / limit / 1_000)),
    })
  }
}

function forgetRested(buckets: Map<string, { readonly atMs: number }>, now: number): void {
  for (const [key, { atMs }] of buckets) if (now - atMs >= minuteMs) buckets.delete(key)
}
