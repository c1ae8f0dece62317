import type { Failure } from './failure.ts'
import type { OperationName } from './operations.ts'

/** One write: the name of an operation and its arguments. */
export type WriteRequest = readonly [name: OperationName, args: unknown]

/** Main thread → writer. Answers to `writes` come back in the same order. */
export type ToWriter = { readonly writes: readonly WriteRequest[] } | { readonly close: true }

/** Writer → main thread, after a group was committed (or could not be). */
export interface FromWriter {
  /** One value per write of the group; where the write failed, undefined. */
  readonly results: readonly unknown[]
  /** Failures by their place in `results`; null when there is none. */
  readonly failures: ReadonlyMap<number, Failure> | null
}

/** What the writer is started with. */
export interface WriterOptions {
  readonly path: string
  readonly synchronous: 'FULL' | 'OFF'
  readonly flushMs: number
  readonly maxRows: number
}
