import type { EgressErrorCode } from '../../core/ports/egress.ts'

/**
 * An outgoing request that failed. `code` is the kind of failure, and callers branch only on this field. The message may reach any
 * client, so it never contains an address behind a host name. Otherwise clients could map the operator's network through a link,
 * because "refused by 10.0.0.7" differs from "no route to 10.0.0.8". The resolved addresses and the system's error are in `cause`
 * and in the log.
 */
export class EgressError extends Error {
  readonly code: EgressErrorCode
  /**
   * Whether nothing of the request was sent, because it still waited for a name, a connection or its turn. It will not be sent
   * later.
   */
  isUnsent = false

  constructor(code: EgressErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'EgressError'
    this.code = code
  }
}

const codes: Readonly<Record<string, EgressErrorCode>> = {
  VALIDATION_ERROR: 'EGRESS_REFUSED',
  UND_ERR_CONNECT_TIMEOUT: 'EGRESS_TIMEOUT',
  UND_ERR_HEADERS_TIMEOUT: 'EGRESS_TIMEOUT',
  UND_ERR_BODY_TIMEOUT: 'EGRESS_TIMEOUT',
  UND_ERR_HEADERS_OVERFLOW: 'EGRESS_LARGE_HEAD',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'EGRESS_BAD_ANSWER',
  UND_ERR_RES_EXCEEDED_MAX_SIZE: 'EGRESS_TOO_LARGE',
  UND_ERR_INVALID_ARG: 'EGRESS_BAD_REQUEST',
  UND_ERR_NOT_SUPPORTED: 'EGRESS_BAD_REQUEST',
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: 'EGRESS_BAD_REQUEST',
  UND_ERR_CLOSED: 'EGRESS_CLOSED',
  UND_ERR_DESTROYED: 'EGRESS_CLOSED',
}

const messages: Readonly<Record<string, string>> = {
  EGRESS_REFUSED: 'The gateway does not connect to this address.',
  EGRESS_TIMEOUT: 'The response did not arrive in time.',
  EGRESS_BAD_ANSWER: 'The response is not well-formed HTTP/1.1.',
  EGRESS_LARGE_HEAD: 'The head of the response is larger than allowed.',
  EGRESS_TOO_LARGE: 'The response is larger than allowed.',
  EGRESS_BAD_REQUEST: 'The request cannot be sent in this form.',
  EGRESS_CLOSED: 'The egress is closed.',
  EGRESS_BROKEN: 'The connection broke before the response was complete.',
}

/**
 * Converts any error of the driver to one of the port's codes. The driver's error becomes the cause, because its message may
 * contain an address.
 */
export function toEgressError(error: unknown): EgressError {
  if (error instanceof EgressError) return error
  const code = codeOf(error)
  return new EgressError(code, messages[code]!, { cause: withoutBytes(error) })
}

function codeOf(error: unknown): EgressErrorCode {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown }
  if (name === 'HTTPParserError') return 'EGRESS_BAD_ANSWER'
  return (typeof code === 'string' ? codes[code] : undefined) ?? 'EGRESS_BROKEN'
}

/** Removes the seller's bytes from the error, where the driver's parser keeps them, so that they are not logged. */
function withoutBytes(error: unknown): unknown {
  if (error instanceof Error && 'data' in error) error.data = undefined
  return error
}

/** The operating system's error of a connection. */
interface SystemError {
  /** Such as `ECONNREFUSED`; empty if the error has none. */
  readonly code: string
  /** The address of the connection, if the error names it. */
  readonly address: string
  /** The call that failed, such as `connect` or, for a name server, `queryA`; empty if the error names none. */
  readonly syscall: string
}

/** Reads an error of `node:net`, `node:tls` or `node:dns`. If every address of a name failed, reads the first error. */
export function systemError(error: unknown): SystemError {
  if (error instanceof AggregateError && error.errors.length > 0) return systemError(error.errors[0])
  const { code, address, syscall } = (error ?? {}) as Record<keyof SystemError, unknown>
  return { code: textOf(code), address: textOf(address), syscall: textOf(syscall) }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
