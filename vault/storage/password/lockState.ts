import { VaultError } from '../../errors/error.ts'
import type { VaultClock } from '../../ports/clock.ts'
import type { LockReason, VaultState } from '../../ports/vault.ts'

/**
 * Maximum duration of one timer, in ms. Node's timers stop while the machine sleeps, so the time is checked at least this
 * often.
 */
const CHECK_EVERY_MS = 30_000

export interface AutoLockOptions {
  /** Time without use after which the vault locks, in ms. */
  readonly idleMs: number
  /** Time after an unlock at which the vault locks even if it is in use, in ms. */
  readonly maxAgeMs: number
}

/** Whether a vault is unlocked, for how long, and why it was last locked. */
export class LockState {
  readonly #autoLock: AutoLock
  readonly #timeIsOver: (reason: 'idle' | 'age') => void
  readonly #listeners = new Set<(reason: LockReason) => void>()
  #isUnlocked = false
  #reason: LockReason | undefined

  /** @param timeIsOver locks the vault. It may be called more than once */
  constructor(clock: VaultClock, options: AutoLockOptions, timeIsOver: (reason: 'idle' | 'age') => void) {
    this.#timeIsOver = timeIsOver
    this.#autoLock = new AutoLock(clock, options, timeIsOver)
  }

  get isUnlocked(): boolean {
    return this.#isUnlocked
  }

  get view(): Pick<VaultState, 'locked' | 'lockReason' | 'locksAtMs' | 'idleLocksAtMs'> {
    const locked = !this.#isUnlocked || this.#autoLock.reason() !== undefined
    return {
      locked,
      lockReason: locked ? this.#reason : undefined,
      locksAtMs: locked ? undefined : this.#autoLock.locksAtMs,
      idleLocksAtMs: locked ? undefined : this.#autoLock.idleLocksAtMs,
    }
  }

  /** Counts as use of the vault. @throws `VAULT_LOCKED` */
  assertUnlocked(): void {
    if (!this.#isUnlocked) throw new VaultError('VAULT_LOCKED')
    const reason = this.#autoLock.reason()
    if (reason !== undefined) {
      this.#timeIsOver(reason)
      throw new VaultError('VAULT_LOCKED')
    }
    this.#autoLock.use()
  }

  onLock(listener: (reason: LockReason) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  begin(): void {
    this.#autoLock.start()
    this.#isUnlocked = true
    this.#reason = undefined
  }

  /** Restarts the timers. A vault that was locked meanwhile stays locked. */
  renew(): void {
    if (!this.#isUnlocked) return
    this.#autoLock.stop()
    this.#autoLock.start()
  }

  /** Locks. @returns whether the vault was unlocked */
  end(reason: LockReason): boolean {
    const wasUnlocked = this.#isUnlocked
    this.#isUnlocked = false
    this.#autoLock.stop()
    if (wasUnlocked) this.#reason = reason
    return wasUnlocked
  }

  /** Notifies the listeners after the vault with its files and keys is locked. */
  tell(reason: LockReason): void {
    for (const listener of this.#listeners) listener(reason)
  }
}

/**
 * Detects when an unlocked vault has to lock. The wall clock continues while a laptop sleeps, and the monotonic clock cannot be
 * set back. The clock that reaches the limit first counts.
 */
class AutoLock {
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
    this.#check()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  use(): void {
    this.#usedAt = this.#read()
  }

  /** Why the vault has to lock now. Undefined if it does not. */
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

  #check(): void {
    const reason = this.reason()
    if (reason !== undefined) return this.#expired(reason)
    const leftMs = Math.min(
      this.#options.maxAgeMs - this.#since(this.#unlockedAt),
      this.#options.idleMs - this.#since(this.#usedAt),
      CHECK_EVERY_MS,
    )
    this.#timer = setTimeout(() => this.#check(), Math.max(1, leftMs)).unref()
  }

  #since(then: { wallMs: number; monotonicMs: number }): number {
    const now = this.#read()
    return Math.max(now.wallMs - then.wallMs, now.monotonicMs - then.monotonicMs)
  }

  #read() {
    return { wallMs: this.#clock.now(), monotonicMs: this.#clock.monotonicMs() }
  }
}
