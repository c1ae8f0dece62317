import type { EgressErrorCode } from '../../core/ports/egress.ts'
import { EgressError } from './egressError.ts'

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
  EGRESS_TIMEOUT: 'The answer did not come in time.',
  EGRESS_BAD_ANSWER: 'The answer is not well-formed HTTP/1.1.',
  EGRESS_LARGE_HEAD: 'The head of the answer is larger than allowed.',
  EGRESS_TOO_LARGE: 'The answer is larger than allowed.',
  EGRESS_BAD_REQUEST: 'The request can not be sent in this form.',
  EGRESS_CLOSED: 'The way out is closed.',
  EGRESS_BROKEN: 'The connection broke before the answer was whole.',
}

/** Gives whatever the driver reports one of the port's codes; its own words, which may hold an address, become the cause. */
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

/** The driver's parser keeps the seller's bytes in its error, where a log would find them. */
function withoutBytes(error: unknown): unknown {
  if (error instanceof Error && 'data' in error) error.data = undefined
  return error
}
