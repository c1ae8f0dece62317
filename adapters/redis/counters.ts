import { Redis } from 'ioredis'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import type { Counters, Taken } from '../../core/ports/counters.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'

/** Takes in one call of the script: it blocks Redis while it runs, about 1 µs a take. */
const maxBatch = 512
const maxReconnectDelayMs = 1_000

/**
 * KEYS: one a take. ARGV: points, limit, window in ms, three a take. Answers three a take: 1 when admitted, points left,
 * ms until the window ends. Redis keeps the time (its key expiry), so that gateways whose clocks differ count alike.
 */
const script = `
local answers = {}
for i, key in ipairs(KEYS) do
  local points, limit, window = tonumber(ARGV[3*i-2]), tonumber(ARGV[3*i-1]), tonumber(ARGV[3*i])
  local used = tonumber(redis.call('GET', key) or 0)
  local rest = used > 0 and redis.call('PTTL', key) or 0
  if rest < 1 then used, rest = 0, window end
  if rest > window then rest = window; redis.call('PEXPIRE', key, window) end
  local ok = 0
  if points >= 0 and used + points <= limit then
    ok = 1
    if points > 0 then
      if used == 0 then redis.call('SET', key, points, 'PX', window) else redis.call('INCRBY', key, points) end
      used = used + points
    end
  end
  answers[3*i-2], answers[3*i-1], answers[3*i] = ok, math.max(0, limit - used), rest
end
return answers
`

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
  /** Resolves once Redis has answered; until then the fallback counts. */
  connected(): Promise<void>
}

interface Waiting {
  readonly key: string
  readonly points: number
  readonly limit: number
  readonly windowMs: number
  readonly resolve: (taken: Taken | Promise<Taken>) => void
}

type Script = (keys: number, ...args: (string | number)[]) => Promise<number[]>

/**
 * Makes counters that all gateways of a fleet share. All takes of one turn of the event loop travel as one call of one
 * script; one at a time costs 81 µs each, which is more than everything else a request needs.
 *
 * While Redis is away, refuses or is slow, `fallback` counts, at once and without waiting: a limiter must not hold up what
 * it guards. The connection comes back by itself. Each change is logged once.
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
    enableOfflineQueue: false,
    // A take that was sent and not answered is counted by the fallback; sending it again would count it twice.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: 2_000,
    // Without it a server that stops answering, its connection open, would never be noticed.
    socketTimeout: timeoutMs,
    retryStrategy: (attempt) => Math.min(attempt * 50, maxReconnectDelayMs),
    scripts: { takeAll: { lua: script } },
  })
  const takeAll = (redis as unknown as { takeAll: Script }).takeAll.bind(redis)
  let waiting: Waiting[] = []
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

  function flush(): void {
    const all = waiting
    waiting = []
    for (let from = 0; from < all.length; from += maxBatch) void send(all.slice(from, from + maxBatch))
  }

  async function send(batch: readonly Waiting[]): Promise<void> {
    try {
      const args = batch.flatMap(({ points, limit, windowMs }) => [
        // Redis counts in integers, and one number it can not read would fail the whole batch.
        Math.ceil(points),
        Math.floor(limit),
        Math.max(1, Math.ceil(windowMs)),
      ])
      const answers = await takeAll(batch.length, ...batch.map(({ key }) => keyPrefix + key), ...args)
      report(false)
      const nowMs = clock.now()
      batch.forEach(({ resolve }, i) => {
        resolve({
          ok: answers[3 * i] === 1,
          remaining: answers[3 * i + 1]!,
          resetAtMs: nowMs + answers[3 * i + 2]!,
        })
      })
    } catch (error) {
      report(true, error)
      for (const { key, points, limit, windowMs, resolve } of batch) {
        resolve(fallback.take(key, points, limit, windowMs))
      }
    }
  }

  return {
    take(key, points, limit, windowMs) {
      if (redis.status !== 'ready') return fallback.take(key, points, limit, windowMs)
      return new Promise((resolve) => {
        if (waiting.push({ key, points, limit, windowMs, resolve }) === 1) setImmediate(flush)
      })
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

/** The code only: messages of a connection may hold the URL, and with it the password. */
function reasonOf(error: unknown): string {
  return String(
    (error as { code?: unknown } | undefined)?.code ?? (error as Error | undefined)?.name ?? 'closed',
  )
}
