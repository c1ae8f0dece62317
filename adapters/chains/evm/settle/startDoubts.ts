/** So many are none any more. */
const MOST_DOUBTS = 3
/** They count whatever blocks come after this time: two blocks of Ethereum, and some seconds. */
const LONGEST_MS = 30_000

/**
 * Looks in a row that found numbers at the start which nobody here knows. A former process leaves empty transactions in the pool, which
 * fill numbers, and no store knows them. They are in the next block, while an installation that works brings others: where blocks are slow,
 * looks in between say nothing of that.
 */
export interface StartDoubts {
  begin(): void
  readonly hasAny: boolean
  /**
   * @param block the newest one, where what waits in the pool has to be in the next; undefined where blocks say nothing
   * @returns whether there have been enough for somebody else to sign
   */
  add(block?: number): boolean
}

/** @param longestMs no longer than that without a block either */
export function createStartDoubts(longestMs: number): StartDoubts {
  let doubts = 0
  /** The newest block of those that were counted. */
  let seen = -1
  /** The first, by this machine's monotonic clock. */
  let sinceMs = 0

  return {
    begin() {
      doubts = 0
      seen = -1
    },
    get hasAny() {
      return doubts > 0
    },
    add(block) {
      const nowMs = performance.now()
      if (doubts === 0) sinceMs = nowMs
      if (block === undefined || block > seen || nowMs - sinceMs >= Math.min(LONGEST_MS, longestMs)) doubts++
      seen = Math.max(seen, block ?? -1)
      return doubts >= MOST_DOUBTS
    },
  }
}
