import { AsyncLocalStorage } from 'node:async_hooks'
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers/promises'
import { createRandom } from './random.ts'

/** What events happen to: a process of the simulation. */
export interface Owner {
  readonly name: string
  isDead: boolean
  /** Until then it stands still: what happens to it meanwhile happens then. */
  frozenUntilMs: number
}

interface Event {
  atMs: number
  readonly order: number
  /** Null: the world's, which neither dies nor freezes. */
  readonly owner: Owner | null
  readonly run: () => void
  isOff: boolean
  /** Its owner stood still when it was to happen. */
  isLate: boolean
}

/** A timer as node gives one, as far as it is used here. */
interface Timer {
  event: Event
  readonly everyMs: number
}

const real = {
  ...{ setTimeout, clearTimeout, setInterval, clearInterval, performanceNow: performance.now },
  dateNow: Date.now,
  ...{ sleep: timers.setTimeout, randomUUID: crypto.randomUUID, random: Math.random },
}

/**
 * Decides who goes on next: a queue of events by virtual time. Everything that would wait for a disk, a chain, a seller or a clock
 * waits for its event here, so a seed gives the same interleaving each time. Whose a timer is, and whose code runs, is
 * known by the event that it came from: a process that is killed or frozen takes all of its own with it.
 */
export class Scheduler {
  nowMs = 0
  readonly seed: number
  readonly random: () => number
  /** So many events have happened. */
  steps = 0
  #queue: Event[] = []
  #order = 0
  readonly #running = new AsyncLocalStorage<Owner | null>()
  readonly #frames = new Map<Owner | null, ReturnType<typeof AsyncLocalStorage.snapshot>>()

  constructor(seed: number) {
    this.seed = seed
    this.random = createRandom(seed)
  }

  chance(probability: number): boolean {
    return this.random() < probability
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)]!
  }

  /** A whole number, both ends included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.random() * (most - least + 1))
  }

  /** Whose code runs now. */
  get owner(): Owner | null {
    return this.#running.getStore() ?? null
  }

  /** Runs code as a process: what the code starts belongs to it. */
  as<T>(owner: Owner | null, run: () => T): T {
    let frame = this.#frames.get(owner)
    if (frame === undefined) {
      // Kept, because creating it for each event would cost more than most events do.
      frame = this.#running.run(owner, () => AsyncLocalStorage.snapshot())
      this.#frames.set(owner, frame)
    }
    return frame(run)
  }

  at(delayMs: number, owner: Owner | null, run: () => void): Event {
    const event = {
      ...{
        atMs: this.nowMs + Math.max(0, delayMs),
        order: this.#order++,
        owner,
        run,
        isOff: false,
        isLate: false,
      },
    }
    this.#insert(event)
    return event
  }

  /** Waits like its process; never returns if the process is killed before. */
  wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => void this.at(delayMs, this.owner, resolve))
  }

  /** Runs all that happens until then. @returns false when `stop` said so before */
  async until(endMs: number, stop: () => boolean = () => false): Promise<boolean> {
    for (;;) {
      await quiet()
      if (stop()) return false
      const next = this.#queue[0]
      if (next === undefined || next.atMs > endMs) break
      this.#queue.shift()
      this.#happen(next)
    }
    this.nowMs = Math.max(this.nowMs, endMs)
    return true
  }

  /** Wakes a process that is paused, before the time. */
  thaw(owner: Owner): void {
    for (const event of this.#queue) {
      if (event.owner === owner && event.isLate) event.atMs = this.nowMs
    }
    owner.frozenUntilMs = 0
    this.#queue.sort((a, b) => a.atMs - b.atMs || a.order - b.order)
  }

  #happen(event: Event): void {
    const { owner } = event
    if (event.isOff || owner?.isDead === true) return
    if (owner !== null && owner.frozenUntilMs > event.atMs) {
      event.atMs = owner.frozenUntilMs
      event.isLate = true
      return this.#insert(event)
    }
    this.nowMs = Math.max(this.nowMs, event.atMs)
    this.steps++
    this.as(owner, event.run)
  }

  /** By time, then by when it was asked for. */
  #insert(event: Event): void {
    const queue = this.#queue
    let low = 0
    let high = queue.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const other = queue[middle]!
      if (other.atMs < event.atMs || (other.atMs === event.atMs && other.order < event.order))
        low = middle + 1
      else high = middle
    }
    queue.splice(low, 0, event)
  }

  #timer(run: () => void, everyMs: number, isRepeated: boolean): Timer {
    const { owner } = this
    const tick = () => {
      if (isRepeated) timer.event = this.at(everyMs, owner, tick)
      run()
    }
    const timer = {
      ...{ everyMs, event: this.at(everyMs, owner, tick) },
      ...{ unref: () => timer, ref: () => timer },
    }
    return timer
  }

  /**
   * Puts this clock, its timers and ids of the seed in place of node's until the returned function is called.
   *
   * @param wallNow what the running process reads as the time of day, in ms since 1970
   */
  takeTimers(wallNow: () => number): () => void {
    const setOne =
      (isRepeated: boolean) =>
      (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) =>
        this.#timer(() => run(...args), Math.ceil(ms), isRepeated)
    const clear = (timer: Timer | undefined) => {
      if (timer?.event !== undefined) timer.event.isOff = true
    }
    const sleep = (ms: number, value: unknown, { signal }: { signal?: AbortSignal } = {}) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason)
        const event = this.at(Math.ceil(ms), this.owner, () => {
          signal?.removeEventListener('abort', end)
          resolve(value)
        })
        const end = () => {
          event.isOff = true
          reject(signal!.reason)
        }
        signal?.addEventListener('abort', end, { once: true })
      })
    Object.assign(globalThis, { setTimeout: setOne(false), setInterval: setOne(true) })
    Object.assign(globalThis, { clearTimeout: clear, clearInterval: clear })
    performance.now = () => this.nowMs
    Date.now = wallNow
    Object.assign(timers, { setTimeout: sleep })
    const ids = createRandom(this.seed + 1)
    Math.random = createRandom(this.seed + 2)
    const hex = (digits: number) =>
      Math.floor(ids() * 16 ** digits)
        .toString(16)
        .padStart(digits, '0')
    crypto.randomUUID = () => `${hex(8)}-${hex(4)}-4${hex(3)}-8${hex(3)}-${hex(6)}${hex(6)}`
    syncBuiltinESMExports()
    return () => {
      const { performanceNow, dateNow, sleep: realSleep, randomUUID, random, ...globals } = real
      Date.now = dateNow
      Math.random = random
      crypto.randomUUID = randomUUID
      Object.assign(globalThis, globals)
      performance.now = performanceNow
      Object.assign(timers, { setTimeout: realSleep })
      syncBuiltinESMExports()
    }
  }
}

/** All that follows from the last event: promises only, since nothing here waits for the outside. */
const quiet = () => new Promise<void>((resolve) => process.nextTick(resolve))
