import type { EgressErrorCode } from '../../core/ports/egress.ts'

/**
 * A way out that did not work. `code` says which way it failed, and is the only thing to branch on.
 *
 * The message may reach a stranger, so it never names an address behind a host name: an answer that tells "refused by
 * 10.0.0.7" from "no route to 10.0.0.8" would let anybody map the operator's network through a link. What was resolved
 * and what the system said stand in `cause` and in the log.
 */
export class EgressError extends Error {
  readonly code: EgressErrorCode
  /** Nothing of the request has left: it still waited for a name, a connection or its turn, and never will leave. */
  isUnsent = false

  constructor(code: EgressErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'EgressError'
    this.code = code
  }
}
