import type { Agent } from '../agents/agent.ts'
import { VaultError } from '../errors/error.ts'

/** The way a request came; the owner's credential counts on the first two only. */
export type Via = 'direct' | 'socket' | 'relay' | 'mcp'

/** Who asks, as the transport proved it. */
export type Caller =
  | { readonly kind: 'agent'; readonly agent: Agent; readonly via: Via }
  | { readonly kind: 'owner'; readonly via: Via }
  /** Nobody in particular: may unlock with the password, nothing else. */
  | { readonly kind: 'anyone'; readonly via: Via }

export type KnownCaller = Exclude<Caller, { readonly kind: 'anyone' }>

export const callerId = (caller: Caller): string => (caller.kind === 'agent' ? caller.agent.id : caller.kind)
export const callerName = (caller: Caller): string =>
  caller.kind === 'agent' ? caller.agent.name : caller.kind

/** @throws `OWNER_REQUIRED`, `UNAUTHORIZED` */
export function assertOwner(caller: Caller): void {
  if (caller.kind === 'owner' && (caller.via === 'direct' || caller.via === 'socket')) return
  throw new VaultError(caller.kind === 'anyone' ? 'UNAUTHORIZED' : 'OWNER_REQUIRED')
}

/** @throws `UNAUTHORIZED` */
export function assertKnown(caller: Caller): asserts caller is KnownCaller {
  if (caller.kind === 'anyone') throw new VaultError('UNAUTHORIZED')
}

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
