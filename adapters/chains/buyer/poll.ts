import { setTimeout as wait } from 'node:timers/promises'

const FIRST_WAIT_MS = 200
const LONGEST_WAIT_MS = 2_000

export interface Polled<T> {
  /** What `ask` found; undefined when the time was up first. */
  readonly value: T | undefined
  /** The last failure's message, when the last try failed. */
  readonly failure: string | undefined
}

/**
 * Asks again and again, ever more slowly (0.2 s to 2 s), until the answer is not undefined or the signal ends. A try that
 * throws counts as one without an answer: nodes fail for a moment and come back. Never throws.
 */
export async function pollUntil<T>(
  signal: AbortSignal,
  ask: () => Promise<T | undefined>,
): Promise<Polled<T>> {
  let failure: string | undefined
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
    try {
      const value = await ask()
      failure = undefined
      if (value !== undefined) return { value, failure }
    } catch (error) {
      // A try that was cut off by the end of the time says nothing about the node.
      if (!signal.aborted) failure = (error as Error).message
    }
    try {
      await wait(waitMs, undefined, { signal })
    } catch {
      return { value: undefined, failure }
    }
  }
}
