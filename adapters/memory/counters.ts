import { hash, randomBytes } from 'node:crypto'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import type { Counters, Taken } from '../../core/ports/counters.ts'

/** Shared buckets for the keys beyond `maxKeys`, per length of window. A power of two. */
const SHARED_BUCKETS = 65_536
/** Old buckets looked at for each new key. Two would do to keep up; the rest catches up after a quiet time. */
const SWEEP_PER_INSERT = 4

export interface MemoryCountersOptions {
  readonly clock?: Clock
  /** Buckets kept at once, about 150 bytes each with its key. Default: 100,000. */
  readonly maxKeys?: number
}

/** The points of one key in its present window, which began with its first take. */
interface Bucket {
  used: number
  endsAtMs: number
}

/**
 * Makes counters for one process, answered at once: `limit` points in a window that begins with a key's first take.
 * Refused takes cost nothing. A clock that is set back lengthens a window to twice its length at most.
 *
 * Memory is bounded without throwing out a bucket in use: whoever could push others' buckets out by making up keys would
 * thereby lift everybody's limit, his own included. Once `maxKeys` buckets are in use, a further key draws from one of
 * 65,536 shared ones, chosen by a keyed hash. Keys that share one are refused early, never late.
 */
export function createMemoryCounters(options: MemoryCountersOptions = {}): Counters {
  const { clock = systemClock, maxKeys = 100_000 } = options
  const buckets = new Map<string, Bucket>()
  let sweeper = buckets.entries()
  /** By window: a bucket shared by a long and a short window would end too early for the long one. */
  const shared = new Map<number, Bucket[]>()
  let hashKey = ''

  function sweep(nowMs: number): void {
    for (let i = 0; i < SWEEP_PER_INSERT; i++) {
      const next = sweeper.next()
      if (next.done === true) {
        sweeper = buckets.entries()
        return
      }
      if (next.value[1].endsAtMs <= nowMs) buckets.delete(next.value[0])
    }
  }

  function newBucket(key: string, windowMs: number, nowMs: number): Bucket {
    sweep(nowMs)
    if (buckets.size >= maxKeys) return sharedBucket(key, windowMs)
    const bucket = { used: 0, endsAtMs: 0 }
    buckets.set(key, bucket)
    return bucket
  }

  function sharedBucket(key: string, windowMs: number): Bucket {
    let row = shared.get(windowMs)
    if (row === undefined) shared.set(windowMs, (row = []))
    // Keyed, so that nobody can look for keys that fall together with a victim's.
    hashKey ||= randomBytes(16).toString('hex')
    const slot = hash('sha256', hashKey + key, 'buffer').readUInt32LE(0) & (SHARED_BUCKETS - 1)
    return (row[slot] ??= { used: 0, endsAtMs: 0 })
  }

  return {
    take(key, points, limit, windowMs) {
      const nowMs = clock.now()
      return takeFrom(buckets.get(key) ?? newBucket(key, windowMs, nowMs), points, limit, windowMs, nowMs)
    },
    async close() {
      buckets.clear()
      shared.clear()
    },
  }
}

function takeFrom(bucket: Bucket, points: number, limit: number, windowMs: number, nowMs: number): Taken {
  if (bucket.endsAtMs <= nowMs || bucket.used === 0) {
    bucket.used = 0
    bucket.endsAtMs = nowMs + windowMs
  } else if (bucket.endsAtMs > nowMs + windowMs) {
    // The clock was set back, or the window made shorter.
    bucket.endsAtMs = nowMs + windowMs
  }
  const ok = points >= 0 && bucket.used + points <= limit
  if (ok) bucket.used += points
  return { ok, remaining: Math.max(0, limit - bucket.used), resetAtMs: bucket.endsAtMs }
}
