/** What the system said about a connection. */
export interface SystemError {
  /** Such as `ECONNREFUSED`; empty when there is none. */
  readonly code: string
  /** The address that was dialled, where the error names one. */
  readonly address: string
}

/** Reads an error of `node:net`, `node:tls` or `node:dns`; of the first, when every address of a name failed. */
export function systemError(error: unknown): SystemError {
  if (error instanceof AggregateError && error.errors.length > 0) return systemError(error.errors[0])
  const { code, address } = (error ?? {}) as { code?: unknown; address?: unknown }
  return { code: typeof code === 'string' ? code : '', address: typeof address === 'string' ? address : '' }
}
