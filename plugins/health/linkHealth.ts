import {
  freshHealth,
  type HealthObservation,
  type HealthState,
  observe,
} from '../../core/domain/suspension.ts'
import type { Clock } from '../../core/ports/clock.ts'

const MINUTE_MS = 60_000

/**
 * One link's health in this process. Calls that begin are only counted, and handed to the state machine once a minute or
 * when a call fails, so that the common case costs an addition.
 */
export class LinkHealth {
  #state: HealthState = freshHealth
  #begun = 0
  #begunMinute = 0
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The seller's API is about to be asked. */
  begins(startedAtMs: number): void {
    const minute = Math.floor(startedAtMs / MINUTE_MS)
    if (minute !== this.#begunMinute) {
      this.#flush(this.#clock.now())
      this.#begunMinute = minute
    }
    this.#begun++
  }

  /** It was not asked after all, or its caller broke the call off: as if the call had not been. */
  takenBack(startedAtMs: number): void {
    this.observe({ kind: 'calls', count: -1, startedAtMs })
  }

  answered(): void {
    if (this.#state.failedProbesInARow > 0) this.observe({ kind: 'call-answered' })
  }

  /** A link that is served again is judged from the start, however it was suspended. */
  reEnabled(): void {
    if (this.#state.isSuspended) this.observe({ kind: 're-enabled' })
  }

  /** Whether the gateway itself gets out. Only a change is told: failures are forgotten when the way out comes back. */
  wayOut(isUp: boolean): void {
    if (this.#state.isEgressUp !== isUp) this.observe({ kind: 'egress', up: isUp })
  }

  /** @returns why the link is to be suspended now, in words for its seller; null when it is not. */
  observe(observation: HealthObservation): string | null {
    const nowMs = this.#clock.now()
    this.#flush(nowMs)
    const { state, suspend } = observe(this.#state, observation, nowMs)
    this.#state = state
    return suspend
  }

  #flush(nowMs: number): void {
    if (this.#begun === 0) return
    const startedAtMs = this.#begunMinute * MINUTE_MS
    this.#state = observe(this.#state, { kind: 'calls', count: this.#begun, startedAtMs }, nowMs).state
    this.#begun = 0
  }
}
