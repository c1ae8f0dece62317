import type { Log } from '../ports/log.ts'
import type { Lease, Leases } from '../ports/store/leases.ts'

/** A lease that is renewed while this process lives. */
export interface HeldLease {
  /** As it is now: after it was lost, that of before until another one is given. */
  readonly current: Lease
  /** By this machine's monotonic clock: false after standing still for longer than it lasts, until it was renewed. */
  readonly isHeld: boolean
  /**
   * How often it was over before it was renewed: what was claimed before may be somebody else's, although nobody has taken the name and
   * its id is the same.
   */
  readonly lapses: number
  /** Gives it back. */
  stop(): Promise<void>
}

export interface HoldOptions {
  readonly ttlMs: number
  readonly renewMs: number
}

/**
 * Takes the lease under a name that nobody else uses, and keeps it. One that was lost (the process stood still, or its store
 * was away, for longer than the lease lasts) is taken anew under another id: what was written under the old one meanwhile
 * was refused, and its payments are somebody else's.
 *
 * @throws when somebody has the name
 */
export async function holdLease(
  leases: Leases,
  name: string,
  log: Log,
  { ttlMs, renewMs }: HoldOptions = { ttlMs: 10_000, renewMs: 2_000 },
): Promise<HeldLease> {
  let untilMs = performance.now() + ttlMs
  const first = await leases.take(name, ttlMs)
  if (first === undefined) throw new Error(`Expected the lease ${name} to be free; another process has it.`)
  let current = first
  let isRenewing = false
  let lapses = 0

  async function renew(): Promise<void> {
    if (isRenewing) return
    isRenewing = true
    try {
      const endMs = performance.now() + ttlMs
      if (await leases.renew(current, ttlMs)) {
        if (performance.now() >= untilMs) lapses++
        untilMs = endMs
        return
      }
      const next = await leases.take(name, ttlMs)
      if (next === undefined) return
      log.warn({ lease: name }, 'a lease was lost and is taken anew: this process stood still for too long')
      current = next
      untilMs = endMs
    } catch (err) {
      log.warn({ err, lease: name }, 'could not renew a lease')
    } finally {
      isRenewing = false
    }
  }

  const timer = setInterval(() => void renew(), renewMs)
  timer.unref()
  return {
    get current() {
      return current
    },
    get isHeld() {
      return performance.now() < untilMs
    },
    get lapses() {
      return lapses
    },
    async stop() {
      clearInterval(timer)
      await leases
        .release(current)
        .catch((err: unknown) => log.warn({ err, lease: name }, 'could not give a lease back'))
    },
  }
}
