import { type Clock, systemClock } from '../../core/ports/clock.ts'
import { DEFAULT_REQUESTS_PER_MINUTE, isSuspended } from '../agents/agent.ts'
import { VaultError } from '../errors/error.ts'
import type { KnownCaller } from './caller.ts'

/** Wrong tokens a minute from one address; a token can't be guessed, and the log of attempts can be filled. */
const MOST_FAILURES = 120

const minuteMs = 60_000
/** Keys that are remembered before those that have rested are forgotten. */
const MOST_KEYS = 10_000

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
    if (buckets.size >= MOST_KEYS && !buckets.has(key)) forgetRested(buckets, now)
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

/** Lets a caller in. @throws `UNAUTHORIZED` for a revoked agent, `AGENT_SUSPENDED` after a restore, `RATE_LIMIT_EXCEEDED` */
export type AssertAdmitted = (caller: KnownCaller) => void

/** One count of an agent's requests, whatever they ask for: what the owner set as requests a minute, or the default. */
export function createAssertAdmitted(clock: Clock): AssertAdmitted {
  const takeOne = createRate(clock)
  return (caller) => {
    if (caller.kind !== 'agent') return
    const { id, requestsPerMinute, revokedAt } = caller.agent
    if (revokedAt !== null) throw new VaultError('UNAUTHORIZED')
    if (isSuspended(caller.agent)) throw new VaultError('AGENT_SUSPENDED')
    takeOne(id, requestsPerMinute ?? DEFAULT_REQUESTS_PER_MINUTE)
  }
}

export function createFailureRate(clock: Clock = systemClock): { count(address: string): void } {
  const take = createRate(clock)
  return { count: (address) => take(address, MOST_FAILURES) }
}
