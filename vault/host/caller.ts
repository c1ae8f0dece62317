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
