import type { Transform } from 'node:stream'

/** Over so long the rate of a caller is averaged. */
export const PACE_MS = 5_000

/**
 * How far a caller is behind the slowest rate at which it has to take an answer, or to send its body. Only time in which it is
 * waited for counts, so that a slow seller is never held against it.
 */
export class Pace {
  /** How long it was waited for beyond what its bytes may take. */
  #behindMs = 0
  /** Since when it is waited for, by `performance.now()`; 0 while it is not. */
  #sinceMs = 0
  #upload: Transform | null = null
  readonly #bytesPerMs: number

  constructor(slowestBytesPerSecond: number) {
    this.#bytesPerMs = slowestBytesPerSecond / 1_000
  }

  /** It is the caller's turn from now on. */
  waits(): void {
    this.#sinceMs = performance.now()
  }

  /** The caller took or sent this much. It is not waited for until that is said again. */
  moved(bytes: number): void {
    if (this.#sinceMs === 0) return
    const waitedMs = performance.now() - this.#sinceMs
    this.#behindMs = Math.max(0, this.#behindMs + waitedMs - bytes / this.#bytesPerMs)
    this.#sinceMs = 0
  }

  /** A body that comes as a stream: what the seller has yet to take of it is not waited for. */
  uploads(body: Transform): void {
    this.#upload = body
    this.waits()
  }

  /** Nobody is waited for any more: the body is there, or the reader has gone. */
  rests(): void {
    this.#upload = null
    this.#behindMs = this.#sinceMs = 0
  }

  /** Whether the next piece of a body is waited for. */
  get isUploading(): boolean {
    return this.#upload !== null && this.#upload.readableLength === 0
  }

  /** @param patienceMs how far behind is too far */
  isBehind(nowMs: number, patienceMs: number): boolean {
    if (this.#upload !== null) {
      if (this.#upload.readableLength > 0) return false
      // The seller has taken all that came.
      if (this.#sinceMs === 0) this.#sinceMs = nowMs
    }
    return this.#behindMs + (this.#sinceMs === 0 ? 0 : nowMs - this.#sinceMs) >= patienceMs
  }
}
