import pg from 'pg'
import { storeUnavailable } from '../../core/ports/refusals.ts'

/** A rule of the schema that a write broke. */
export class ConstraintError extends Error {
  override readonly name = 'ConstraintError'
  /** Name of the constraint or of the unique index, such as `links_slug`; empty where a trigger refused. */
  readonly constraint: string

  constructor(constraint: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.constraint = constraint
  }
}

/**
 * The error that a caller of the store sees for one of the database's: a {@link ConstraintError} where a rule of the schema was
 * broken (SQLSTATE class 23, and `raise_exception` of our triggers), a fault where our own statement was wrong, and
 * `store_unavailable` for everything else: the server is away, full, read-only, restarting or too slow.
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
 * True for what is over when it is tried once more: two transactions waited for each other, or were in each other's way. Of the
 * server's own error as of what {@link errorOf} made of it.
 */
export function isToRepeat(error: unknown): boolean {
  const cause = error instanceof pg.DatabaseError ? error : (error as Partial<Error> | undefined)?.cause
  return cause instanceof pg.DatabaseError && (cause.code === '40P01' || cause.code === '40001')
}

/** True when the server had no room to write. */
export const isDiskFull = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === '53100'

/** SQLSTATE classes that blame the statement or its values (postgresql.org/docs/current/errcodes-appendix.html). */
const faultClasses = new Set(['0A', '21', '22', '2B', '34', '38', '39', '3D', '3F', '42', '44'])
