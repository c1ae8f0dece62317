import { VaultError } from '../../errors/error.ts'
import type { VaultClock } from '../../ports/clock.ts'
import type { LockReason, VaultState } from '../../ports/vault.ts'

/** A timer is set for at most so long: Node's timers stand still while the machine sleeps. */
const LOOK_EVERY_MS = 30_000

export interface AutoLockOptions {
  /** Locks when nothing used the vault for so long. */
  readonly idleMs: number
  /** Locks so long after unlocking, whatever happens. */
  readonly maxAgeMs: number
}

/** Whether a vault is open, for how long still, and why it was locked last. */
export class LockState {
  readonly #autoLock: AutoLock
  readonly #timeIsOver: (reason: 'idle' | 'age') => void
  readonly #listeners = new Set<(reason: LockReason) => void>()
  #isUnlocked = false
  #reason: LockReason | undefined

  /** @param timeIsOver has to lock; may be told more than once */
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

  /** Its time begins anew. A vault that was locked meanwhile stays locked. */
  renew(): void {
    if (!this.#isUnlocked) return
    this.#autoLock.stop()
    this.#autoLock.start()
  }

  /** Whether it was in use. */
  end(reason: LockReason): boolean {
    const wasUnlocked = this.#isUnlocked
    this.#isUnlocked = false
    this.#autoLock.stop()
    if (wasUnlocked) this.#reason = reason
    return wasUnlocked
  }

  /** Tells those who listen that it is locked, files and keys included. */
  tell(reason: LockReason): void {
    for (const listener of this.#listeners) listener(reason)
  }
}

/**
 * Knows when an unlocked vault's time is over: by the wall clock, which goes on while a laptop sleeps, or by the
 * monotonic one, which nobody can turn back; whichever is first.
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
      LOOK_EVERY_MS,
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
