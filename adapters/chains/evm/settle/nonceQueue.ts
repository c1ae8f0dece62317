/** Gives out account nonces of one key, each to one transaction. */
export interface NonceQueue {
  /**
   * The lowest nonce that nobody has. Whoever takes it uses it or gives it back: one that is left out stops every later
   * transaction of the account. Several may have one at once, so that their attempts are stored as one group.
   */
  take(): Promise<number>
  /** Nothing was signed with it that could still be sent: the next one gets it. */
  giveBack(nonce: number): void
  readonly hasGaps: boolean
  /** Nonces that were given back while later ones are in use, now whoever's asks: they have to be filled. */
  takeGaps(): number[]
  /** Never gives out this nonce or one below it: a former process has signed with it. */
  raiseAbove(nonce: number): void
  /** Asks the chain again before the next one: something else signs with the same key. */
  recheck(): void
  /** The next nonce, once it is known. */
  readonly next: number | undefined
}

/** @param firstFree asks the chain for the account's next nonce, its pool included; asked once, and after `recheck` */
export function createNonceQueue(firstFree: () => Promise<number>): NonceQueue {
  let asked: Promise<void> | undefined
  let next = 0
  /** Below `next`, lowest first. */
  let gaps: number[] = []
  /** What is below is used, by us or by somebody else. */
  let lowest = 0

  const ask = async (): Promise<void> => {
    const first = await firstFree()
    lowest = first
    gaps = gaps.filter((nonce) => nonce >= first)
    next = Math.max(next, first)
  }
  return {
    async take() {
      const asking = (asked ??= ask())
      try {
        await asking
      } catch (error) {
        if (asked === asking) asked = undefined
        throw error
      }
      return gaps.shift() ?? next++
    },
    giveBack(nonce) {
      if (nonce < lowest) return
      gaps = [...gaps, nonce].sort((a, b) => a - b)
      while (gaps.at(-1) === next - 1) {
        gaps.pop()
        next--
      }
    },
    get hasGaps() {
      return gaps.length > 0
    },
    takeGaps: () => gaps.splice(0),
    raiseAbove(nonce) {
      next = Math.max(next, nonce + 1)
    },
    recheck() {
      asked = undefined
    },
    get next() {
      return next > 0 || asked !== undefined ? next : undefined
    },
  }
}
