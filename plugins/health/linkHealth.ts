import {
  freshHealth,
  type HealthObservation,
  type HealthState,
  observe,
} from '../../core/domain/suspension.ts'

const MINUTE_MS = 60_000

/**
 * One link's health in this process. Good calls are only counted, and handed to the state machine once a minute or when
 * a call fails, so that the common case costs an addition.
 */
export class LinkHealth {
  #state: HealthState = freshHealth
  #good = 0
  #goodMinute = 0

  /** A call that the seller answered. */
  good(nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS)
    if (minute !== this.#goodMinute) {
      this.#flush()
      this.#goodMinute = minute
    }
    this.#good++
  }

  /** A link that is served again is judged from the start, however it was suspended. */
  reEnabled(nowMs: number): void {
    if (this.#state.isSuspended) this.observe({ kind: 're-enabled' }, nowMs)
  }

  /** Whether the gateway itself gets out. Only a change is told: failures are forgotten when the way out comes back. */
  wayOut(isUp: boolean, nowMs: number): void {
    if (this.#state.isEgressUp !== isUp) this.observe({ kind: 'egress', up: isUp }, nowMs)
  }

  /** @returns why the link is to be suspended now, in words for its seller; null when it is not. */
  observe(observation: HealthObservation, nowMs: number): string | null {
    this.#flush()
    const { state, suspend } = observe(this.#state, observation, nowMs)
    this.#state = state
    return suspend
  }

  #flush(): void {
    if (this.#good === 0) return
    const calls = { kind: 'call', failed: false, count: this.#good } as const
    this.#state = observe(this.#state, calls, this.#goodMinute * MINUTE_MS).state
    this.#good = 0
  }
}
