import { isTollgateError, TollgateError, type TollgateErrorOptions } from '../../../core/errors/error.ts'
import { storeUnavailable } from '../../../core/ports/refusals.ts'

/** An error of SQLite in a form that crosses threads. */
export interface Failure {
  /**
   * `constraint`: one statement broke a rule, and the other statements of its group are done. `unavailable`: the database failed
   * (full, read-only, busy, broken). `fault`: this module's statement or arguments are wrong. `refusal`: a method of a repository
   * refused.
   */
  readonly kind: 'constraint' | 'unavailable' | 'fault' | 'refusal'
  readonly message: string
  readonly refusal?: Pick<
    TollgateError,
    'code' | 'details' | 'retryAfterSeconds' | 'retryable' | 'extra' | 'reason'
  >
}

/**
 * SQLite's primary result codes for errors that the statement or its caller caused, and not the database file
 * (sqlite.org/rescode.html).
 */
const faults = new Set([1, 2, 3, 12, 18, 20, 21, 25])
const constraint = 19

/** A rule of the schema that a write broke, such as `UNIQUE constraint failed: stores.username`. */
export class ConstraintError extends Error {
  override readonly name = 'ConstraintError'
}

export function failureOf(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error)
  if (isTollgateError(error)) {
    const { code, details, retryAfterSeconds, retryable, extra, reason } = error
    return {
      kind: 'refusal',
      message,
      refusal: { code, details, retryAfterSeconds, retryable, extra, reason },
    }
  }
  if (error instanceof ConstraintError) return { kind: 'constraint', message }
  const code = resultCode(error)
  if (code === undefined || faults.has(code)) return { kind: 'fault', message }
  if (code === constraint) return { kind: 'constraint', message }
  return { kind: 'unavailable', message }
}

/** Converts a failure to the error that a caller of the database gets. */
export function errorOf(failure: Failure): Error {
  if (failure.kind === 'constraint') return new ConstraintError(failure.message)
  if (failure.refusal !== undefined)
    return new TollgateError(failure.refusal.code, failure.message, failure.refusal as TollgateErrorOptions)
  if (failure.kind === 'fault') return new Error(`The database refused a statement: ${failure.message}.`)
  return storeUnavailable(failure.message)
}

/** Runs a read and converts SQLite's errors by {@link errorOf}. */
export function reading<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw resultCode(error) === undefined ? error : errorOf(failureOf(error))
  }
}

/** Whether another connection has the lock. */
export const isBusy = (error: unknown): boolean => resultCode(error) === 5

/** Whether a file is not a SQLite database, is broken, or has other tables. */
export const isNoDatabase = (error: unknown): boolean => [1, 11, 26].includes(resultCode(error) ?? 0)

function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  if (code === 'ERR_INVALID_STATE') return 14 // a closed connection is treated like a file that cannot be opened
  return code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number' ? errcode & 0xff : undefined
}
