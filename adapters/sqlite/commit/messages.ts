import type { Failure } from '../failure.ts'
import type { OperationName } from './operations.ts'

/** One write: the name of an operation, its arguments, and whether it has to be on disk when it is answered. */
export type WriteRequest = readonly [name: OperationName, args: unknown, isFlushed: boolean]

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
  /** False for a database that nobody needs after this process: nothing is ever flushed. */
  readonly isDurable: boolean
  readonly flushMs: number
  readonly maxRows: number
}
