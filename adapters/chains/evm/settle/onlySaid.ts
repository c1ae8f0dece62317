/**
 * Account numbers that are used as nodes have said, and nobody here knows by whom. No payment of the books is lost when one that
 * nobody has used after all is filled.
 */
export interface OnlySaid {
  /**
   * What a former process has heard of nodes and not written down: between two numbers of the books no payment has had those that they
   * have nothing for.
   *
   * @param booked all that the books have from the lowest of them on, without those of payments that are not among the newest
   * @param others that are known to be payments'
   */
  adopt(booked: ReadonlySet<number>, others: ReadonlySet<number>): void
  has(nonce: number): boolean
  /** Nothing that is known is above. */
  readonly below: number
}

/** @param heard what this process has heard: from the first on, and below the second */
export function createOnlySaid(heard: () => readonly [number, number]): OnlySaid {
  let payments: ReadonlySet<number> = new Set()
  /** Of the books. What is below the lowest they may have forgotten. */
  let lowest = 0
  let highest = 0

  return {
    adopt(booked, others) {
      payments = new Set([...booked, ...others])
      ;[lowest, highest] = booked.size === 0 ? [0, 0] : [Math.min(...booked), Math.max(...booked)]
      // Without a gap there is none.
      if (highest - lowest < booked.size) highest = 0
    },
    has(nonce) {
      const [from, below] = heard()
      return (nonce >= from && nonce < below) || (nonce > lowest && nonce < highest && !payments.has(nonce))
    },
    get below() {
      return Math.max(heard()[1], highest)
    },
  }
}
