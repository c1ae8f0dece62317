import type { Caller } from './caller.ts'

/** What surrounds a request, whichever way it came. */
export interface RequestContext {
  readonly caller: Caller
  readonly requestId: string
  /** How long to wait for the owner's answer, in milliseconds; then the answer is 202. Default 25,000, most 120,000. */
  readonly waitMs?: number
  /** The same key with the same request gets the same answer; with another one, `IDEMPOTENCY_CONFLICT`. */
  readonly idempotencyKey?: string
  /** Aborted when the caller has gone: nobody waits for an approval then. */
  readonly signal?: AbortSignal
  /** Called when the request begins to wait for the owner's answer. Must not throw. */
  readonly onAsked?: (asked: Asked) => void
}

/** An open question that a request waits for. */
export interface Asked {
  readonly approvalId: string
  readonly expiresAtMs: number
}

/** Where nothing waits and nothing is repeated. */
export type OwnerContext = Pick<RequestContext, 'caller' | 'requestId'>
