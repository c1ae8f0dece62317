/** A name that one holder has for a while, by the store's clock. */
export interface Lease {
  /** Fencing token: grows with every lease of the store, and is never given out twice. */
  readonly id: number
  readonly name: string
}

/**
 * A lease may be over so much later than it lasts: whoever looks may have read the clock before its holder renewed it, and waited for the
 * writer since, and a server's clock is put right by moments. One that is over later still was given before the machine's
 * last start, or before the clock was set back, and counts for nothing. A dead process's lease of before a start may count for as long
 * as it lasts and this: with the ten seconds between two looks for what dead processes left, it has to stay within the 30 of a recovery.
 */
export const CLOCK_BEHIND_MS = 5_000

/** Who has a name now. */
export interface LeaseHolder {
  readonly id: number
  /** From now on, unless it is renewed. */
  readonly endsInMs: number
  /** The number of its process on its machine, and whether that is this one; null where the store does not know. */
  readonly process: { readonly id: number; readonly isThis: boolean } | null
}

/**
 * Who may work on what. Time is the store's: no holder's clock counts, and none that is set forward or back changes
 * anything. A lease that is over stays its holder's until somebody else takes the name: it may still be renewed. What its
 * holder wrote meanwhile is safe by the fencing token in the rows, which a take-over changes.
 *
 * Every method rejects with `store_unavailable` when the store can not say.
 */
export interface Leases {
  /** @returns undefined while somebody has the name, the caller itself under an earlier lease included. */
  take(name: string, ttlMs: number): Promise<Lease | undefined>
  /** Another `ttlMs` from now. @returns false when it is lost: released, or somebody else took the name. */
  renew(lease: Lease, ttlMs: number): Promise<boolean>
  /** Who has the name; undefined while it can be taken. Changes nothing. */
  holderOf(name: string): Promise<LeaseHolder | undefined>
  /** The names that somebody has and that begin so. Changes nothing. */
  heldNames(prefix: string): Promise<string[]>
  /** Gives the name free at once; nothing when the lease was lost. */
  release(lease: Lease): Promise<void>
}
