import { setTimeout as delay } from 'node:timers/promises'
import type { Log } from '../../../core/ports/log.ts'
import { type Failure, failureOf } from './failure.ts'

/** Maximum pause, in ms. A Node timer above 2^31 - 1 ms would fire at once. */
const LONGEST_WAIT_MS = 86_400_000

/** Pauses between retries. Each is longer than the last, at least as long as the Bot API requested, and at most a day. */
interface Backoff {
  /** Fulfilled when it is time to retry, or at once when `signal` is aborted. */
  wait(failure: Failure, signal: AbortSignal): Promise<void>
  /** Called when a call succeeded. The next failure waits the shortest time again. */
  reset(): void
}

export function createBackoff(minMs: number, maxMs: number): Backoff {
  let nextMs = minMs
  return {
    async wait({ retryAfterMs = 0 }, signal) {
      // The pause is up to a fifth longer, so that several vaults do not retry at the same moment.
      const ms = Math.min(Math.max(nextMs * (1 + Math.random() / 5), retryAfterMs), LONGEST_WAIT_MS)
      nextMs = Math.min(nextMs * 2, maxMs)
      await delay(ms, undefined, { signal, ref: false }).catch(() => undefined)
    },
    reset() {
      nextMs = minMs
    },
  }
}

/**
 * Messages to the chat. They are sent one after the other and retried until they succeed. A job reads the state when it runs
 * and not when it was queued. A newer job with the same key replaces a waiting one.
 */
export interface Outbox {
  put(key: string, job: () => Promise<void>): void
  /** Fulfilled when the worker has stopped, after `signal` was aborted. */
  run(): Promise<void>
}

export interface OutboxParts {
  readonly backoff: Backoff
  readonly signal: AbortSignal
  readonly log: Log
}

export function createOutbox({ backoff, signal, log }: OutboxParts): Outbox {
  const due = new Map<string, () => Promise<void>>()
  let wake = (): void => {}
  signal.addEventListener('abort', () => wake())

  async function work(key: string, job: () => Promise<void>): Promise<void> {
    due.delete(key)
    try {
      await job()
      backoff.reset()
    } catch (error) {
      if (signal.aborted) return
      const failure = failureOf(error)
      const { code, message, isFinal } = failure
      log.warn({ code, reason: message, subject: key }, 'a message to the chat failed and is retried')
      if (isFinal) return
      if (!due.has(key)) due.set(key, job)
      await backoff.wait(failure, signal)
    }
  }

  return {
    put(key, job) {
      due.set(key, job)
      wake()
    },
    async run() {
      while (!signal.aborted) {
        const [next] = due
        if (next !== undefined) await work(...next)
        else await new Promise<void>((resolve) => (wake = resolve))
      }
    },
  }
}
