import { storeUnavailable } from '../../core/ports/refusals.ts'

/** What went wrong in SQLite, in a form that crosses threads. */
export interface Failure {
  /**
   * `constraint`: one statement broke a rule, its neighbours stand. `unavailable`: the database can not say (full,
   * read-only, busy, broken). `fault`: a mistake in our own statement or arguments.
   */
  readonly kind: 'constraint' | 'unavailable' | 'fault'
  readonly message: string
}

/** SQLite's primary result codes that blame the statement, or the caller, and not the database file (sqlite.org/rescode.html). */
const faults = new Set([1, 2, 3, 12, 18, 20, 21, 25])
const constraint = 19

/** A rule of the schema that a write broke, such as `UNIQUE constraint failed: stores.username`. */
export class ConstraintError extends Error {
  override readonly name = 'ConstraintError'
}

export function failureOf(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof ConstraintError) return { kind: 'constraint', message }
  const code = resultCode(error)
  if (code === undefined || faults.has(code)) return { kind: 'fault', message }
  if (code === constraint) return { kind: 'constraint', message }
  return { kind: 'unavailable', message }
}

/** The error that a caller of the store sees. */
export function errorOf(failure: Failure): Error {
  if (failure.kind === 'constraint') return new ConstraintError(failure.message)
  if (failure.kind === 'fault') return new Error(`The database refused a statement: ${failure.message}.`)
  return storeUnavailable(failure.message)
}

/** Runs a read; SQLite's own errors come out as {@link errorOf} says. */
export function reading<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw resultCode(error) === undefined ? error : errorOf(failureOf(error))
  }
}

/** True when another connection has the lock. */
export const isBusy = (error: unknown): boolean => resultCode(error) === 5

/** True for a file that is none of SQLite's, that is broken, or that has other tables than ours. */
export const isNoDatabase = (error: unknown): boolean => [1, 11, 26].includes(resultCode(error) ?? 0)

function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  if (code === 'ERR_INVALID_STATE') return 14 // the connection is closed: as good as a file that can't be opened
  return code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number' ? errcode & 0xff : undefined
}
