import { startJob } from '../jobs/job.ts'
import type { Settler } from '../ports/chains/settler.ts'
import type { Log } from '../ports/log.ts'
import type { Lease, Leases } from '../ports/store/leases.ts'

/**
 * How long the lease of a key lasts, in ms. It is slightly longer than a process's own lease. When another process may sign with
 * the key, this process has already lost its rows, so nothing that it signs after a suspension is stored. Another process gets the
 * key within 15 s, including the poll interval.
 */
const TTL_MS = 12_500

/** The right to sign with a key, if only one process at a time may sign with the key. */
export interface KeyLease {
  /**
   * Takes or renews the lease.
   *
   * @returns undefined while another process has the lease. If another process had the lease meanwhile, the id is a new one
   */
  hold(): Promise<Lease | undefined>
  /**
   * Whether the lease is valid by this machine's monotonic clock. False after it has run out, such as during a suspension, until it
   * is renewed.
   */
  readonly isHeld: boolean
  release(): Promise<void>
}

/** @param settlerId `evm:eip155:8453:0xabc…` */
export const leaseNameOf = (settlerId: string): string => `settle:${settlerId}`

/**
 * The names under which processes lease a settler. There is one name for each of its keys, and one for the settler itself, whose
 * holder gets payments from other processes. Settlers with overlapping lists of keys share names.
 */
export const leaseNamesOf = ({ id, keys = [] }: Pick<Settler, 'id' | 'keys'>): string[] =>
  [...new Set([...keys.map((key) => key.id), id])].map(leaseNameOf)

/** @param settlerId as in {@link leaseNameOf} */
export const leaseOfKey = (leases: Leases, settlerId: string, now?: () => number): KeyLease =>
  leaseOf(leases, leaseNameOf(settlerId), now)

/** A lease for work that only one process of an installation may do at a time. */
export function leaseOf(leases: Leases, name: string, now: () => number = () => performance.now()): KeyLease {
  let lease: Lease | undefined
  let untilMs = Number.NEGATIVE_INFINITY
  return {
    async hold() {
      const endMs = now() + TTL_MS
      if (lease === undefined || !(await leases.renew(lease, TTL_MS))) {
        untilMs = Number.NEGATIVE_INFINITY
        lease = undefined
        lease = await leases.take(name, TTL_MS)
      }
      if (lease !== undefined) untilMs = endMs
      return lease
    },
    get isHeld() {
      return now() < untilMs
    },
    async release() {
      untilMs = Number.NEGATIVE_INFINITY
      if (lease !== undefined) await leases.release(lease)
      lease = undefined
    },
  }
}

/** A lease that this process renews as long as it lives. */
export interface HeldLease {
  /** The current lease. If it was lost, this is the old lease until the process gets a new one. */
  readonly current: Lease
  /**
   * Whether the lease is valid by this machine's monotonic clock. False after it has run out, such as during a suspension, until it
   * is renewed.
   */
  readonly isHeld: boolean
  /**
   * How often the lease ran out before it was renewed. Another process may have taken the payments that were claimed before, even
   * if the renewed lease has the same id.
   */
  readonly lapses: number
  /** Releases the lease. */
  stop(): Promise<void>
}

interface HoldOptions {
  readonly ttlMs: number
  readonly renewMs: number
}

/**
 * Takes the lease of a name that no other process uses, and keeps renewing it. If the process is suspended, or its database down,
 * for longer than the lease lasts, the lease is lost. A lease with another id then replaces it. Meanwhile, writes under the old id
 * were refused, and the payments belong to other processes.
 *
 * @throws if another process has the name
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
  let lapses = 0

  async function renew(): Promise<void> {
    const endMs = performance.now() + ttlMs
    if (await leases.renew(current, ttlMs)) {
      if (performance.now() >= untilMs) lapses++
      untilMs = endMs
      return
    }
    const next = await leases.take(name, ttlMs)
    if (next === undefined) return
    log.warn(
      { lease: name },
      'a lease was lost and taken again: this process was suspended, or the database down, for too long',
    )
    current = next
    untilMs = endMs
  }

  const job = startJob({ name: 'renew the lease of this process', everyMs: renewMs, log, run: renew })
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
      await job.stop()
      await leases
        .release(current)
        .catch((err: unknown) => log.warn({ err, lease: name }, 'could not release a lease'))
    },
  }
}
