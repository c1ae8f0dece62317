import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible'
import type { Counters } from '../../core/ports/counters.ts'

/** Counters in memory by rate-limiter-flexible, as far as a bench takes from them: the measure for our own. */
export function createLibraryCounters(): Counters {
  const limiters = new Map<string, RateLimiterMemory>()
  const limiterOf = (points: number, windowMs: number) => {
    const name = `${points}/${windowMs}`
    let limiter = limiters.get(name)
    if (limiter === undefined) {
      limiters.set(name, (limiter = new RateLimiterMemory({ points, duration: windowMs / 1_000 })))
    }
    return limiter
  }
  const taken = (ok: boolean, { remainingPoints: remaining, msBeforeNext }: RateLimiterRes) => ({
    ...{ ok, remaining },
    resetAtMs: Date.now() + msBeforeNext,
  })
  return {
    take: (key, points, limit, windowMs) =>
      limiterOf(limit, windowMs)
        .consume(key, points)
        .then(
          (res) => taken(true, res),
          (res: RateLimiterRes) => taken(false, res),
        ),
    async close() {},
  }
}
