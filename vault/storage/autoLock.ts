import type { VaultClock } from '../ports/clock.ts'

export interface AutoLockOptions {
  /** Locks when nothing used the vault for so long. */
  readonly idleMs: number
  /** Locks so long after unlocking, whatever happens. */
  readonly maxAgeMs: number
}

/** A timer is set for at most so long: Node's timers stand still while the machine sleeps. */
const lookEveryMs = 30_000

/**
 * Knows when an unlocked vault's time is over: by the wall clock, which goes on while a laptop sleeps, or by the
 * monotonic one, which nobody can turn back; whichever is first.
 */
export class AutoLock {
  readonly #clock: VaultClock
  readonly #options: AutoLockOptions
  readonly #expired: (reason: 'idle' | 'age') => void
  #unlockedAt = { wallMs: 0, monotonicMs: 0 }
  #usedAt = { wallMs: 0, monotonicMs: 0 }
  #timer: NodeJS.Timeout | undefined

  constructor(clock: VaultClock, options: AutoLockOptions, expired: (reason: 'idle' | 'age') => void) {
    this.#clock = clock
    this.#options = options
    this.#expired = expired
  }

  start(): void {
    this.#unlockedAt = this.#usedAt = this.#read()
    this.#look()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  use(): void {
    this.#usedAt = this.#read()
  }

  /** Why the time is over, or undefined when it is not. */
  reason(): 'idle' | 'age' | undefined {
    if (this.#since(this.#unlockedAt) >= this.#options.maxAgeMs) return 'age'
    return this.#since(this.#usedAt) >= this.#options.idleMs ? 'idle' : undefined
  }

  get locksAtMs(): number {
    return this.#unlockedAt.wallMs + this.#options.maxAgeMs
  }

  get idleLocksAtMs(): number {
    return Math.min(this.locksAtMs, this.#usedAt.wallMs + this.#options.idleMs)
  }

  #look(): void {
    const reason = this.reason()
    if (reason !== undefined) return this.#expired(reason)
    const leftMs = Math.min(
      this.#options.maxAgeMs - this.#since(this.#unlockedAt),
      this.#options.idleMs - this.#since(this.#usedAt),
      lookEveryMs,
    )
    this.#timer = setTimeout(() => this.#look(), Math.max(1, leftMs)).unref()
  }

  #since(then: { wallMs: number; monotonicMs: number }): number {
    const now = this.#read()
    return Math.max(now.wallMs - then.wallMs, now.monotonicMs - then.monotonicMs)
  }

  #read() {
    return { wallMs: this.#clock.now(), monotonicMs: this.#clock.monotonicMs() }
  }
}
