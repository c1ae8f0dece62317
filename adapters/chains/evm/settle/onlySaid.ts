import type { BookedNumbers } from '../../../../core/ports/chains/settler.ts'

/** Of books that can't say, or were not asked. */
export const noneBooked: BookedNumbers = { numbers: new Set(), isWhole: false }

/**
 * Account numbers that are used as nodes have said, and nobody here knows by whom. No payment of the books is lost when one that
 * nobody has used after all is filled.
 */
export interface OnlySaid {
  /**
   * What a former process has heard of nodes and not written down: between two numbers of the books no payment has had those that they
   * have nothing for; where the books are whole, below the lowest as well.
   *
   * @param others that are known to be payments'
   */
  adopt(booked: BookedNumbers, others: ReadonlySet<number>): void
  has(nonce: number): boolean
  /** Nothing that is known is above. */
  readonly below: number
}

/** @param heard what this process has heard: from the first on, and below the second */
export function createOnlySaid(heard: () => readonly [number, number]): OnlySaid {
  let payments: ReadonlySet<number> = new Set()
  /** Down to here the books may have forgotten; −1 where they have forgotten nothing. */
  let forgotten = 0
  /** Of the books. */
  let highest = 0

  return {
    adopt({ numbers, isWhole }, others) {
      payments = new Set([...numbers, ...others])
      ;[forgotten, highest] = numbers.size === 0 ? [0, 0] : [Math.min(...numbers), Math.max(...numbers)]
      if (isWhole) forgotten = -1
      // Without a gap there is none.
      const known = isWhole ? numbers.size : numbers.size - 1
      if (highest - forgotten === known) highest = 0
    },
    has(nonce) {
      const [from, below] = heard()
      return (
        (nonce >= from && nonce < below) || (nonce > forgotten && nonce < highest && !payments.has(nonce))
      )
    },
    get below() {
      return Math.max(heard()[1], highest)
    },
  }
}
