/** A small generator of random numbers that a seed repeats exactly (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

interface Timer {
  readonly atMs: number
  readonly run: () => void
}

const realImmediate = setImmediate
const realTimers = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout }
const realNow = performance.now

const flush = () => new Promise<void>((resolve) => void realImmediate(resolve))

/**
 * Decides who goes on next. Whatever would wait for a disk, a chain or a seller waits for its turn here, and timers run on
 * a clock of their own, so that a seed gives the same interleaving each time.
 */
export class Scheduler {
  nowMs = 1_800_000_000_000
  readonly random: () => number
  #waiting: (() => void)[] = []
  #timers: Timer[] = []

  constructor(seed: number) {
    this.random = createRandom(seed)
  }

  chance(probability: number): boolean {
    return this.random() < probability
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)]!
  }

  /** Resolves when it is this waiter's turn; never, when the process dies before. */
  turn(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** What was waiting is gone, as after a kill. */
  async crash(): Promise<void> {
    await flush()
    this.#waiting = []
    this.#timers = []
  }

  /** Lets one waiter go on, or the next timer run. @returns false when nothing waits. */
  async step(): Promise<boolean> {
    // All that follows from the last step: promises only, since nothing here waits for the outside.
    await flush()
    const hasTimers = this.#timers.length > 0
    if (this.#waiting.length > 0 && !(hasTimers && this.chance(0.03))) {
      const [resolve] = this.#waiting.splice(Math.floor(this.random() * this.#waiting.length), 1)
      resolve!()
      return true
    }
    if (!hasTimers) return false
    this.#timers.sort((a, b) => a.atMs - b.atMs)
    const next = this.#timers.shift()!
    this.nowMs = Math.max(this.nowMs, next.atMs)
    next.run()
    return true
  }

  async settleDown(maxSteps: number): Promise<void> {
    for (let i = 0; i < maxSteps; i++) if (!(await this.step())) return
    throw new Error(`not quiet after ${maxSteps} steps`)
  }

  /** Puts this clock and its timers in place of node's until the returned function is called. */
  takeTimers(): () => void {
    const take = (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
      const timer: Timer = { atMs: this.nowMs + ms, run: () => run(...args) }
      this.#timers.push(timer)
      return { timer, unref() {}, ref() {} }
    }
    globalThis.setTimeout = take as never
    globalThis.clearTimeout = ((handle: { timer: Timer } | undefined) => {
      this.#timers = this.#timers.filter((timer) => timer !== handle?.timer)
    }) as never
    performance.now = () => this.nowMs
    return () => {
      Object.assign(globalThis, realTimers)
      performance.now = realNow
    }
  }
}
