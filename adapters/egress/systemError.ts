/** What the system said about a connection. */
export interface SystemError {
  /** Such as `ECONNREFUSED`; empty when there is none. */
  readonly code: string
  /** The address that was dialled, where the error names one. */
  readonly address: string
  /** The call that failed, such as `connect` or, of a name server, `queryA`; empty when the error names none. */
  readonly syscall: string
}

/** Reads an error of `node:net`, `node:tls` or `node:dns`; of the first, when every address of a name failed. */
export function systemError(error: unknown): SystemError {
  if (error instanceof AggregateError && error.errors.length > 0) return systemError(error.errors[0])
  const { code, address, syscall } = (error ?? {}) as Record<keyof SystemError, unknown>
  return { code: textOf(code), address: textOf(address), syscall: textOf(syscall) }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
