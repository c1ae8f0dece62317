/** Gives out account nonces of one key, one after the other. */
export interface NonceQueue {
  /**
   * Runs `use` with the next nonce while nobody else runs. The nonce is used up when `use` answers true; when it
   * answers false or rejects, the next caller gets the same one, because a nonce that is left out stops every later
   * transaction of the account.
   */
  take(use: (nonce: number) => Promise<boolean>): Promise<boolean>
  /** Never gives out this nonce or one below it: a former process has signed with it. */
  raiseAbove(nonce: number): void
  /** Asks the chain again before the next one: something else signs with the same key. */
  recheck(): void
  /** The next nonce, once it is known. */
  readonly next: number | undefined
}

/** @param firstFree asks the chain for the account's next nonce, its pool included; asked once, and after `recheck` */
export function createNonceQueue(firstFree: () => Promise<number>): NonceQueue {
  let isAsked = false
  let next = 0
  let tail: Promise<unknown> = Promise.resolve()

  const turn = async (use: (nonce: number) => Promise<boolean>): Promise<boolean> => {
    if (!isAsked) {
      next = Math.max(next, await firstFree())
      isAsked = true
    }
    const nonce = next
    if (!(await use(nonce))) return false
    next = Math.max(next, nonce + 1)
    return true
  }
  return {
    take(use) {
      const mine = tail.then(() => turn(use))
      tail = mine.catch(() => {})
      return mine
    },
    raiseAbove(nonce) {
      next = Math.max(next, nonce + 1)
    },
    recheck() {
      isAsked = false
    },
    get next() {
      return next > 0 || isAsked ? next : undefined
    },
  }
}
