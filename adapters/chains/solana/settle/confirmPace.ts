/** How many payments the pace goes by: enough for their quarters, few enough to follow the chain. */
const REMEMBERED = 16
/** From one look to the next, as a part of the time in which the middle half of the payments lands. */
const PART_OF_SPREAD = 0.6
/** No closer than this part of what a payment takes. */
const PART_OF_TYPICAL = 1 / 16
/** One that was there at the first look may have been there long before. So far is gone back for it, as a part. */
const EARLIER = 7 / 8

export interface ConfirmPaceOptions {
  /** Least time between two looks, and before the first one, in ms. */
  readonly firstMs: number
  /** Most time between two looks, in ms; below `firstMs` it is that. */
  readonly maxMs: number
}

/** Decides when to ask where a transaction stands that was sent: each question is a call that providers of nodes bill. */
export interface ConfirmPace {
  /** Median time from sending to landing lately, in ms; undefined before the first payment. */
  readonly typicalMs: number | undefined
  /** Least time between two rounds of looks, in ms. */
  readonly leastMs: number
  /** From a look at this age, in ms since it was sent, to the next one. */
  gapMs(ageMs: number): number
  /**
   * Tells that one landed between these two ages, in ms, the first 0 where nobody had looked before; twice the same where
   * it is known better, and for one that did not land how long it was waited for.
   */
  note(absentMs: number, foundMs: number): void
}

/**
 * A payment is sent at any time of a slot and lands with its end, so that what they take is spread over a slot's length.
 * The first look comes when a quarter of those of late had landed, and the next ones follow at a bit more than half of
 * the time in which the middle half of them landed: about two looks a payment, where slots are long and where they are
 * short. Whoever takes longer than three quarters did is asked about half as often each time. Before anything has landed,
 * looks come at once and then half as often each time.
 *
 * Quarters, not means: transactions that never land, which a buyer can arrange, slow nobody else's while they are few.
 */
export function createConfirmPace({ firstMs, maxMs }: ConfirmPaceOptions): ConfirmPace {
  const mostMs = Math.max(firstMs, maxMs)
  const bounded = (ms: number) => Math.min(mostMs, Math.max(firstMs, ms))
  const lately: number[] = []
  let typicalMs: number | undefined
  let lowMs = 0
  let highMs = 0
  let betweenMs = firstMs

  return {
    get typicalMs() {
      return typicalMs
    },
    get leastMs() {
      return Math.max(firstMs, betweenMs / 2)
    },
    gapMs(ageMs) {
      if (typicalMs === undefined) return bounded(ageMs)
      return Math.min(mostMs, Math.max(betweenMs, ageMs < lowMs ? lowMs - ageMs : ageMs - highMs))
    },
    note(absentMs, foundMs) {
      const isFirst = absentMs === 0
      lately.push(
        isFirst
          ? Math.max(foundMs / 2, Math.min(foundMs * EARLIER, foundMs - betweenMs / 2))
          : (absentMs + foundMs) / 2,
      )
      if (lately.length > REMEMBERED) lately.shift()
      const sorted = lately.toSorted((a, b) => a - b)
      typicalMs = sorted[sorted.length >> 1]!
      lowMs = sorted[sorted.length >> 2]!
      highMs = Math.min(2 * typicalMs, sorted[(3 * sorted.length) >> 2]!)
      betweenMs = bounded(
        Math.max(PART_OF_TYPICAL * typicalMs, PART_OF_SPREAD * Math.min(typicalMs, highMs - lowMs)),
      )
    },
  }
}
