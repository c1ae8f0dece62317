/** A name that one holder has for a while, by the store's clock. */
export interface Lease {
  /** Fencing token: grows with every lease of the store, and is never given out twice. */
  readonly id: number
  readonly name: string
}

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
