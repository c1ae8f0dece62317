/** The result of {@link Counters.take}. */
export interface Taken {
  readonly ok: boolean
  /** Points left in the window after this call, never below zero. */
  readonly remaining: number
  /** When the bucket is full again, in ms since 1970. */
  readonly resetAtMs: number
}

/**
 * Rate limits. Counts points by key and window. A result from memory is synchronous, and a result from Redis is a promise. A rate
 * limit may refuse a call too early, but it never decides about a payment.
 */
export interface Counters {
  /**
   * Takes `points` from the bucket `key`, which has `limit` points per `windowMs`. If the shared counter does not respond, this
   * process uses its own count. Never throws.
   */
  take(key: string, points: number, limit: number, windowMs: number): Taken | Promise<Taken>
  /**
   * Whether the shared counter is in use now. Queries the counter with a short timeout. Absent if each process counts for itself.
   * Never rejects.
   */
  isShared?(): Promise<boolean>
  close(): Promise<void>
}
