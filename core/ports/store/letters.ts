/** Something that one process of a store tells another one. */
export interface Letter {
  /** The lease, by its fencing token, whose holder is meant: whoever takes the name later never hears it. */
  readonly to: number
  /** A lease of the sender's, where answers go. */
  readonly from: number
  readonly body: Uint8Array
}

/**
 * Letters between the processes of one store, for what one of them has to do for another now. They are heard within
 * milliseconds, live no longer than the lease that they are for, and a power cut may lose them: whatever must not be lost
 * stands in the books, and whoever waits for an answer watches whether the lease is still held.
 */
export interface Letters {
  /** In the order of posting, together. Rejects with `store_unavailable` when the store can not say. */
  post(letters: readonly Letter[]): Promise<void>
  /**
   * Hears every letter to a lease of this process, each once, those that came before included. Those of one sender come in the
   * order in which it posted them, one after the other.
   *
   * @returns a function that ends it
   */
  listen(to: number, hear: (letter: Letter) => void): () => void
}
