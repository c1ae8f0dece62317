import type { VaultClock } from '../../../vault/ports/clock.ts'

/** A clock that stands still until it is turned. */
export class ManualClock implements VaultClock {
  wallMs: number
  elapsedMs = 0

  constructor(wallMs = Date.parse('2026-03-01T12:00:00Z')) {
    this.wallMs = wallMs
  }

  now(): number {
    return this.wallMs
  }

  monotonicMs(): number {
    return this.elapsedMs
  }

  /** Advances the clock. */
  pass(ms: number): void {
    this.wallMs += ms
    this.elapsedMs += ms
  }
}
