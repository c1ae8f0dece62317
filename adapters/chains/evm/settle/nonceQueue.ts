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
  /**
   * Gives out none below this one, as somebody else seems to have used them. Until it has given out one from there on, that can be
   * taken back.
   */
  suppose(first: number): void
  /** There are numbers that nobody gets because of {@link NonceQueue.suppose} alone. */
  readonly isSupposing: boolean
  /** Nobody has used them after all. Leaves alone what was given out or raised, also meanwhile. */
  supposeNothing(): void
  /** Asks the chain again before the next one: something else signs with the same key. */
  recheck(): void
  /** The next nonce, once it is known; above what is supposed. */
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
  /** What is below seems to be used by somebody else; of no account where it is not above `next`. */
  let supposed = 0

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
      const gap = gaps.shift()
      if (gap !== undefined) return gap
      // From now on something of ours is above: this is final.
      next = Math.max(next, supposed)
      supposed = 0
      return next++
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
      // Compared, because the larger of both would be NaN for good where one is.
      if (nonce >= next) next = nonce + 1
    },
    suppose(first) {
      supposed = Math.max(supposed, first)
    },
    get isSupposing() {
      return supposed > next
    },
    supposeNothing() {
      supposed = 0
    },
    recheck() {
      asked = undefined
    },
    get next() {
      const known = Math.max(next, supposed)
      return known > 0 || asked !== undefined ? known : undefined
    },
  }
}
