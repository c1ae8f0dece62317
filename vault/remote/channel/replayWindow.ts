/** How far behind the newest a sequence number may be, in calls. More than are ever under way at once. */
const windowSize = 1024

/**
 * Remembers which sequence numbers of a session were used (RFC 4303, section 3.4.3). Calls may overtake one another, but
 * none is taken twice, and none that is older than the window.
 */
export class ReplayWindow {
  #highest = 0
  readonly #taken = new Uint8Array(windowSize)

  /** True once for each number from 1 on; only for a message that was authenticated, or a forger could burn numbers. */
  take(sequence: number): boolean {
    if (!Number.isSafeInteger(sequence) || sequence < 1) return false
    if (sequence <= this.#highest - windowSize) return false
    if (sequence > this.#highest) {
      const first = Math.max(this.#highest + 1, sequence - windowSize + 1)
      for (let i = first; i <= sequence; i++) this.#taken[i % windowSize] = 0
      this.#highest = sequence
    }
    const slot = sequence % windowSize
    if (this.#taken[slot] === 1) return false
    this.#taken[slot] = 1
    return true
  }
}
