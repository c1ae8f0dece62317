/** Token buckets, one a key. Time comes from the caller. Full ones are forgotten, so memory follows the busy keys. */
export class Buckets {
  readonly #capacity: number
  readonly #perMs: number
  readonly #levels = new Map<string, { level: number; atMs: number }>()

  constructor(capacity: number, perSecond: number) {
    this.#capacity = capacity
    this.#perMs = perSecond / 1000
  }

  /** Takes one. @returns 0 when there was one, else the milliseconds until there is; then nothing was taken. */
  take(key: string, nowMs: number): number {
    const level = this.#levelOf(key, nowMs)
    if (level < 1) {
      this.#levels.set(key, { level, atMs: nowMs })
      return Math.ceil((1 - level) / this.#perMs)
    }
    this.#levels.set(key, { level: level - 1, atMs: nowMs })
    return 0
  }

  /** Forgets keys whose bucket is full again. */
  sweep(nowMs: number): void {
    for (const key of this.#levels.keys())
      if (this.#levelOf(key, nowMs) >= this.#capacity) this.#levels.delete(key)
  }

  get size(): number {
    return this.#levels.size
  }

  #levelOf(key: string, nowMs: number): number {
    const found = this.#levels.get(key)
    if (found === undefined) return this.#capacity
    const elapsedMs = Math.max(0, nowMs - found.atMs)
    return Math.min(this.#capacity, found.level + elapsedMs * this.#perMs)
  }
}
