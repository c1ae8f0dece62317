import type { Settler } from '../ports/chains/settler.ts'
import type { Lease, Leases } from '../ports/store/leases.ts'

/**
 * As long as a process's own lease and a little more: when another process may sign, what this one had claimed is not its
 * own any more, so that nothing it signs after standing still is stored. With the look for it, another one has it in 15 s.
 */
const TTL_MS = 12_500

/** Who signs with a key, where only one process may. */
export interface KeyLease {
  /** Takes it, or keeps it. @returns undefined while another process has it; another id when others had it meanwhile */
  hold(): Promise<Lease | undefined>
  /** By this machine's monotonic clock: false after standing still for longer than it lasts, until it was held anew. */
  readonly isHeld: boolean
  release(): Promise<void>
}

/** @param settlerId `evm:eip155:8453:0xabc…` */
export const leaseNameOf = (settlerId: string): string => `settle:${settlerId}`

/**
 * Under which names a process may have what settles: that of each of its keys, and its own, under which others hand it what they are
 * paid. Those with other lists of keys have some of them in common.
 */
export const leaseNamesOf = ({ id, keys = [] }: Pick<Settler, 'id' | 'keys'>): string[] =>
  [...new Set([...keys.map((key) => key.id), id])].map(leaseNameOf)

/** @param settlerId as of {@link leaseNameOf} */
export const leaseOfKey = (leases: Leases, settlerId: string, now?: () => number): KeyLease =>
  leaseOf(leases, leaseNameOf(settlerId), now)

/** A name that one process at a time has: for what an installation does once. */
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
