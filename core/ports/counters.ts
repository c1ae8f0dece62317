/** What a counter said. */
export interface Taken {
  readonly ok: boolean
  /** Points left in the window after this take; never below zero. */
  readonly remaining: number
  /** When the bucket is whole again, in ms since 1970. */
  readonly resetAtMs: number
}

/**
 * Counts points per key and window. An answer in memory is immediate; a shared one (Redis) comes as a promise.
 * It may refuse early; it never admits a payment.
 */
export interface Counters {
  /**
   * Takes `points` from the bucket `key`, which holds `limit` points per `windowMs`.
   * When the shared store does not answer, falls back to this process's own count; it never throws.
   */
  take(key: string, points: number, limit: number, windowMs: number): Taken | Promise<Taken>
  /**
   * Whether the shared store counts now; asks it, and answers soon. Absent where each process counts for itself. Never rejects.
   */
  isShared?(): Promise<boolean>
  close(): Promise<void>
}
