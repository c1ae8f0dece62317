import pg from 'pg'
import { storeUnavailable } from '../../../core/ports/refusals.ts'

/** A rule of the schema that a write broke. */
export class ConstraintError extends Error {
  override readonly name = 'ConstraintError'
  /** Name of the constraint or of the unique index, such as `links_slug`. Empty if a trigger refused the write. */
  readonly constraint: string

  constructor(constraint: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.constraint = constraint
  }
}

/**
 * Converts a driver error into the error that the caller gets. It is a {@link ConstraintError} if the write broke a rule of the
 * schema (SQLSTATE class 23, and `raise_exception` of this schema's triggers), and a fault if the statement itself was wrong. Every
 * other error becomes `store_unavailable`, because the server is down, full, read-only, restarting or too slow.
 */
export function errorOf(error: unknown): Error {
  if (error instanceof pg.DatabaseError) {
    const code = error.code ?? ''
    if (code.startsWith('23') || code === 'P0001')
      return new ConstraintError(error.constraint ?? '', error.message, { cause: error })
    if (faultClasses.has(code.slice(0, 2)))
      return new Error(`The database refused a statement: ${error.message}.`, { cause: error })
  }
  const refusal = storeUnavailable(error instanceof Error ? error.message : String(error))
  return Object.assign(refusal, { cause: error })
}

/**
 * Whether a retry resolves the error, which is a deadlock or a serialization failure. Accepts the server's own error and the result
 * of {@link errorOf}.
 */
export function isToRepeat(error: unknown): boolean {
  const cause = error instanceof pg.DatabaseError ? error : (error as Partial<Error> | undefined)?.cause
  return cause instanceof pg.DatabaseError && (cause.code === '40P01' || cause.code === '40001')
}

/** Whether the server had no space to write. */
export const isDiskFull = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === '53100'

/** SQLSTATE classes for errors that the statement or its values caused (postgresql.org/docs/current/errcodes-appendix.html). */
const faultClasses = new Set(['0A', '21', '22', '2B', '34', '38', '39', '3D', '3F', '42', '44'])
