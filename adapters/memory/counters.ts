import { hash, randomBytes } from 'node:crypto'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import type { Counters, Taken } from '../../core/ports/counters.ts'

/** Number of shared buckets per length of window, for keys beyond `maxKeys`. It must be a power of two. */
const SHARED_BUCKETS = 65_536
/** Number of old buckets that are checked for each new key. Two would suffice, and the others catch up after a quiet time. */
const SWEEP_PER_INSERT = 4

export interface MemoryCountersOptions {
  readonly clock?: Clock
  /** Maximum number of buckets, each about 150 bytes with its key. Default 100,000. */
  readonly maxKeys?: number
}

/** The points of one key in its current window, which began with the key's first request. */
interface Bucket {
  used: number
  endsAtMs: number
}

/**
 * Creates counters for one process, without I/O. A key has `limit` points per window, which begins with the key's first request.
 * Refused requests cost no points. If the clock is set back, a window lasts at most twice its length.
 *
 * The memory has a limit, but no bucket in use is dropped. Otherwise a caller could displace buckets by inventing keys, and so
 * remove every limit, including its own. Once `maxKeys` buckets are in use, further keys use one of 65,536 shared buckets, chosen
 * by a keyed hash. Keys that share a bucket are refused early, never late.
 */
export function createMemoryCounters(options: MemoryCountersOptions = {}): Counters {
  const { clock = systemClock, maxKeys = 100_000 } = options
  const buckets = new Map<string, Bucket>()
  let sweeper = buckets.entries()
  /** By length of window, because a bucket that a long and a short window share would end too early for the long one. */
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
    // The hash has a random key, so that an attacker cannot search for keys that share a bucket with a victim's key.
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
    // The window's end is too far away, because the clock was set back or the window was made shorter.
    bucket.endsAtMs = nowMs + windowMs
  }
  const ok = points >= 0 && bucket.used + points <= limit
  if (ok) bucket.used += points
  return { ok, remaining: Math.max(0, limit - bucket.used), resetAtMs: bucket.endsAtMs }
}
