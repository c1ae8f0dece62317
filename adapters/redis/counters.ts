import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import type { Counters, Taken } from '../../core/ports/counters.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'

const MAX_RECONNECT_DELAY_MS = 1_000
/**
 * Shortest window in ms for which a refused request gets its points back. With a shorter window, the points could go to the next
 * window.
 */
const RETURN_TIMEOUT_MS = 1_000
/** The library only counts. This module checks the limit itself, because requests of one key may have different limits. */
const unlimited = Number.MAX_SAFE_INTEGER

export interface RedisCountersOptions {
  /** `redis://` or `rediss://`, including credentials. */
  readonly url: string
  /** Counts while Redis is unavailable. Closed together with these counters. */
  readonly fallback: Counters
  /** Prefix of every key. Default: `tollgate:count:`. */
  readonly keyPrefix?: string
  /** Longest wait for Redis before the fallback counts, in ms. Default: 250. */
  readonly timeoutMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

export interface RedisCounters extends Counters {
  isShared(): Promise<boolean>
  /** Resolves once Redis has responded. Until then the fallback counts. */
  connected(): Promise<void>
}

/**
 * Creates counters that all gateways share through one Redis. They use rate-limiter-flexible and send the requests of one turn of
 * the event loop in one write (ioredis' auto-pipelining). Redis measures the time, so gateways with different clocks count alike.
 * Windows are whole seconds, rounded up. While Redis is unavailable, refuses or is slow, the fallback counts, because a rate
 * limiter must not delay calls. The connection is restored automatically. The log reports each change once.
 */
export function createRedisCounters(options: RedisCountersOptions): RedisCounters {
  const {
    fallback,
    keyPrefix = 'tollgate:count:',
    timeoutMs = 250,
    clock = systemClock,
    log = silentLog,
  } = options
  const redis = new Redis(options.url, {
    enableAutoPipelining: true,
    enableOfflineQueue: false,
    // The fallback counts a request that got no response. If the library sent the request again, it would count twice.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: 2_000,
    // Without this limit, a server that stops responding on an open connection would never be detected.
    socketTimeout: timeoutMs,
    retryStrategy: (attempt) => Math.min(attempt * 50, MAX_RECONNECT_DELAY_MS),
  })
  const insurance = new Insurance(fallback)
  const limiter = new RateLimiterRedis({
    storeClient: redis,
    points: unlimited,
    duration: 1,
    // Every key already has Tollgate's prefix, and the library would add a colon to its own.
    keyPrefix: '',
    rejectIfRedisNotReady: true,
    insuranceLimiter: insurance,
  })
  let isUnavailable = false
  let isClosed = false

  function report(away: boolean, reason?: unknown): void {
    if (away === isUnavailable || isClosed) return
    isUnavailable = away
    if (away)
      log.warn({ reason: reasonOf(reason) }, 'Redis does not respond, so each gateway counts by itself')
    else log.info({}, 'Redis responds again, so rate limits are shared')
  }

  redis.on('error', (error) => report(true, error))
  redis.on('close', () => report(true))
  redis.on('ready', () => report(false))

  /** The count of a key. Null for a key that has no window yet. If a response is not a count, the fallback counts. */
  async function callRedis(
    key: string,
    points: number,
    window: { readonly customDuration: number },
  ): Promise<RateLimiterRes | null> {
    const found = points > 0 ? await limiter.penalty(key, points, window) : await limiter.get(key, window)
    if (found === null || isCount(found)) return found
    return insurance.penalty(key, points, window)
  }

  async function take(key: string, points: number, limit: number, windowMs: number): Promise<Taken> {
    const window = { customDuration: Math.max(1, Math.ceil(windowMs / 1_000)) }
    const isCounted = points > 0 && points <= limit
    const whole = Math.ceil(points)
    const found = await callRedis(key, isCounted ? whole : 0, window)
    const isInsured = found instanceof Insured
    // An error on an open connection (read-only, out of memory) causes no event, so it is reported here.
    if (redis.status === 'ready') report(isInsured, { code: 'REFUSED' })
    let used = found?.consumedPoints ?? 0
    const restMs = used > 0 ? Math.min(found!.msBeforeNext, window.customDuration * 1_000) : windowMs
    const ok = (isCounted || points === 0) && used <= limit
    if (isCounted && !ok) {
      used -= whole
      if (restMs > RETURN_TIMEOUT_MS && !isInsured) await limiter.reward(key, whole, window)
    }
    return { ok, remaining: Math.max(0, Math.floor(limit) - used), resetAtMs: clock.now() + restMs }
  }

  return {
    take: (key, points, limit, windowMs) => take(keyPrefix + key, points, limit, windowMs),

    async isShared() {
      if (redis.status !== 'ready') return false
      // A frozen Redis keeps its connection open. Without this request, the gateway would not notice that while there are no calls.
      const response = redis.ping().then(
        () => true,
        () => false,
      )
      const late = wait(timeoutMs, false, { ref: false })
      return (await Promise.race([response, late])) && !isUnavailable
    },

    connected: () =>
      redis.status === 'ready' ? Promise.resolve() : new Promise((resolve) => redis.once('ready', resolve)),

    async close() {
      isClosed = true
      redis.disconnect()
      await fallback.close()
    },
  }
}

const isCount = ({ consumedPoints, msBeforeNext }: RateLimiterRes) =>
  Number.isSafeInteger(consumedPoints) && consumedPoints >= 0 && msBeforeNext >= 0

/** A result that the fallback counted. */
class Insured extends RateLimiterRes {}

/**
 * The library's limiter while Redis is unavailable, on counters with limited memory. The library's own limiter keeps a timer for
 * every key, and callers can invent keys. A refused request counts until its window ends.
 */
class Insurance extends RateLimiterMemory {
  readonly #counters: Counters

  constructor(counters: Counters) {
    super({ points: unlimited, duration: 1, keyPrefix: '' })
    this.#counters = counters
  }

  override async penalty(key: string, points = 1, options: Window = {}): Promise<RateLimiterRes> {
    const windowMs = (options.customDuration ?? 1) * 1_000
    const { remaining, resetAtMs } = await this.#counters.take(key, points, unlimited, windowMs)
    return new Insured(remaining, resetAtMs - Date.now(), unlimited - remaining, false)
  }

  override get(key: string, options?: Window): Promise<RateLimiterRes> {
    return this.penalty(key, 0, options)
  }

  override reward(key: string, _points?: number, options?: Window): Promise<RateLimiterRes> {
    return this.penalty(key, 0, options)
  }
}

interface Window {
  /** In seconds. */
  readonly customDuration?: number
}

/** Returns only the code, because connection errors may contain the URL and its password. */
function reasonOf(error: unknown): string {
  return String(
    (error as { code?: unknown } | undefined)?.code ?? (error as Error | undefined)?.name ?? 'closed',
  )
}
