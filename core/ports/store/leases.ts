/** The right of one holder to a name, for a limited time by the database's clock. */
export interface Lease {
  /** Fencing token. It is larger than that of every earlier lease of the database, and never reused. */
  readonly id: number
  readonly name: string
}

/**
 * How much later than its duration a lease may end, in ms. A reader may read the clock, then wait for the database's writer while
 * the lease holder renews the lease. A server's clock may also be corrected slightly. A lease that ends even later does not count,
 * because it was given before the machine rebooted or before the clock was set back. After a reboot, the lease of a dead process
 * may therefore delay recovery by its duration plus this value. This sum and the ten seconds between two polls must stay within the
 * 30 seconds of a recovery.
 */
export const CLOCK_BEHIND_MS = 5_000

/** The current lease holder of a name. */
export interface LeaseHolder {
  readonly id: number
  /** Time until the lease ends unless it is renewed, in ms from now. */
  readonly endsInMs: number
  /** Id of the lease holder's process on its machine, and whether it is this process. Null if the database does not contain it. */
  readonly process: { readonly id: number; readonly isThis: boolean } | null
}

/**
 * Decides which process may do which work. All times are the database's, so the clocks of the holders do not matter. An expired
 * lease can still be renewed until another holder takes the name. A former holder's writes after that do no harm, because rows
 * contain the fencing token, and a take-over changes it.
 *
 * Every method rejects with `store_unavailable` if the database does not respond.
 */
export interface Leases {
  /** @returns undefined while any holder has the name, even if that holder is the caller under an earlier lease */
  take(name: string, ttlMs: number): Promise<Lease | undefined>
  /** Extends the lease to `ttlMs` from now. @returns false if the lease was released, or another holder has taken the name */
  renew(lease: Lease, ttlMs: number): Promise<boolean>
  /** The lease holder of the name. Undefined if the name can be taken. Changes nothing. */
  holderOf(name: string): Promise<LeaseHolder | undefined>
  /** The names with this prefix that are leased now. Changes nothing. */
  heldNames(prefix: string): Promise<string[]>
  /** Frees the name at once. Does nothing if the lease was lost. */
  release(lease: Lease): Promise<void>
}
