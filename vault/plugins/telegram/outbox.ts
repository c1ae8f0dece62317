import type { Log } from '../../../core/ports/log.ts'
import type { Backoff } from './backoff.ts'
import { failureOf } from './failure.ts'

/**
 * What has to be told the chat, one thing after the other, until it is told. A job says what is true when it runs, not when
 * it was put here; a newer one of the same key takes the place of one that waits.
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
      log.warn({ code, reason: message, subject: key }, 'the chat could not be told')
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
