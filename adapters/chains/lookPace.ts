/** How many settlements the typical time is the median of: few enough to follow the chain, too many for one to turn it. */
const REMEMBERED = 9
/** Around the time when a transaction lands as a rule, looks come this many to that time. */
const LOOKS_PER_TYPICAL = 8

export interface LookPaceOptions {
  /** Least time between two looks, and before the first one, in ms. */
  readonly firstMs: number
  /** Most time between two looks, in ms; below `firstMs` it is that. */
  readonly maxMs: number
}

/** Decides when to look for a transaction that was sent: often around the time that the chain took lately, rarely later. */
export interface LookPace {
  /** Median time from sending to landing lately, in ms; undefined before the first settlement. */
  readonly typicalMs: number | undefined
  /** Least time between two rounds of looks, in ms. */
  readonly leastMs: number
  /** From a look at this age, in ms since it was sent, to the next one. */
  gapMs(ageMs: number): number
  /** Tells how long one took, or, when it did not land, how long it was waited for. */
  note(ms: number): void
}

/**
 * Before anything has landed, looks come at once and then half as often each time: with `firstMs` 20 and
 * `maxMs` 1,000 at 20, 40, 80, 160, 320, 640, 1,280 ms, then once a second. Later the first one comes at half of the typical time, and they
 * close in on it; behind it they thin out in the same way.
 *
 * The typical time is a median, so that one transaction that never lands, which a buyer can arrange, slows nobody else's.
 */
export function createLookPace({ firstMs, maxMs }: LookPaceOptions): LookPace {
  const mostMs = Math.max(firstMs, maxMs)
  const lately: number[] = []
  let typicalMs: number | undefined
  const leastMs = () => Math.min(mostMs, Math.max(firstMs, (typicalMs ?? 0) / LOOKS_PER_TYPICAL))

  return {
    get typicalMs() {
      return typicalMs
    },
    get leastMs() {
      return leastMs()
    },
    gapMs(ageMs) {
      const aheadMs = (typicalMs ?? 0) - ageMs
      return Math.min(mostMs, Math.max(leastMs(), aheadMs > 0 ? aheadMs / 2 : -aheadMs))
    },
    note(ms) {
      lately.push(ms)
      if (lately.length > REMEMBERED) lately.shift()
      typicalMs = lately.toSorted((a, b) => a - b)[lately.length >> 1]
    },
  }
}
