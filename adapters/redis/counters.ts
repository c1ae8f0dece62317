import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import type { Counters, Taken } from '../../core/ports/counters.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'

const MAX_RECONNECT_DELAY_MS = 1_000
/** A refused take is given back only when its window lasts longer: later, it would lift the limit of the next one. */
const GIVE_BACK_MS = 1_000
/** The library's limiter counts, and the limit of each take is judged here: takes of one key may have different ones. */
const unlimited = Number.MAX_SAFE_INTEGER

export interface RedisCountersOptions {
  /** `redis://` or `rediss://`, credentials included. */
  readonly url: string
  /** Counts while Redis is away; closed with this one. */
  readonly fallback: Counters
  /** In front of every key. Default: `tollgate:count:`. */
  readonly keyPrefix?: string
  /** Longest wait for Redis before the fallback counts, in milliseconds. Default: 250. */
  readonly timeoutMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

export interface RedisCounters extends Counters {
  isShared(): Promise<boolean>
  /** Resolves once Redis has answered; until then the fallback counts. */
  connected(): Promise<void>
}

/**
 * Makes counters that all gateways of one Redis share: rate-limiter-flexible's, with the takes of one turn of the event
 * loop in one write (ioredis' auto-pipelining). Redis keeps the time, so that gateways whose clocks differ count alike;
 * windows are whole seconds, rounded up.
 *
 * While Redis is away, refuses or is slow, the insurance counts: a limiter must not hold up what it guards. The
 * connection comes back by itself. Each change is logged once.
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
    // A take that was sent and not answered is counted by the insurance; sending it again would count it twice.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: 2_000,
    // Without it a server that stops answering, its connection open, would never be noticed.
    socketTimeout: timeoutMs,
    retryStrategy: (attempt) => Math.min(attempt * 50, MAX_RECONNECT_DELAY_MS),
  })
  const insurance = new Insurance(fallback)
  const limiter = new RateLimiterRedis({
    storeClient: redis,
    points: unlimited,
    duration: 1,
    // Ours goes in front of every key; the library would put a colon of its own between.
    keyPrefix: '',
    rejectIfRedisNotReady: true,
    insuranceLimiter: insurance,
  })
  let isAway = false
  let isClosed = false

  function report(away: boolean, reason?: unknown): void {
    if (away === isAway || isClosed) return
    isAway = away
    if (away) log.warn({ reason: reasonOf(reason) }, 'Redis does not answer; each gateway counts by itself')
    else log.info({}, 'Redis answers again; rate limits are shared')
  }

  redis.on('error', (error) => report(true, error))
  redis.on('close', () => report(true))
  redis.on('ready', () => report(false))

  /** Null for a key that has no window yet. Answers that are no counts are left to the insurance. */
  async function ask(
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
    const found = await ask(key, isCounted ? whole : 0, window)
    const isInsured = found instanceof Insured
    // An error of a connection that stands (read-only, out of memory) has no event of its own.
    if (redis.status === 'ready') report(isInsured, { code: 'REFUSED' })
    let used = found?.consumedPoints ?? 0
    const restMs = used > 0 ? Math.min(found!.msBeforeNext, window.customDuration * 1_000) : windowMs
    const ok = (isCounted || points === 0) && used <= limit
    if (isCounted && !ok) {
      used -= whole
      if (restMs > GIVE_BACK_MS && !isInsured) await limiter.reward(key, whole, window)
    }
    return { ok, remaining: Math.max(0, Math.floor(limit) - used), resetAtMs: clock.now() + restMs }
  }

  return {
    take: (key, points, limit, windowMs) => take(keyPrefix + key, points, limit, windowMs),

    async isShared() {
      if (redis.status !== 'ready') return false
      // One that stands still has its connection open, and without calls nobody has noticed.
      const answer = redis.ping().then(
        () => true,
        () => false,
      )
      const late = wait(timeoutMs, false, { ref: false })
      return (await Promise.race([answer, late])) && !isAway
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

/** What the insurance counted. */
class Insured extends RateLimiterRes {}

/**
 * The library's limiter for the time that Redis is away, on counters whose memory is bounded: its own keeps a timer for
 * every key, and callers make up keys. A take that was refused counts until its window ends.
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

/** The code only: messages of a connection may hold the URL, and with it the password. */
function reasonOf(error: unknown): string {
  return String(
    (error as { code?: unknown } | undefined)?.code ?? (error as Error | undefined)?.name ?? 'closed',
  )
}
