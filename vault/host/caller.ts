import { type Clock, systemClock } from '../../core/ports/clock.ts'
import { type Agent, DEFAULT_REQUESTS_PER_MINUTE, isSuspended } from '../agents/agents.ts'
import { VaultError } from '../errors/error.ts'
import type { AuditAction, AuditLog } from '../ports/audit.ts'
import type { Vault } from '../ports/vault.ts'

/** The transport of a request. Only the first two accept the owner's credential. */
export type Via = 'direct' | 'socket' | 'relay' | 'mcp'

/** The caller, as the transport authenticated it. */
export type Caller =
  | { readonly kind: 'agent'; readonly agent: Agent; readonly via: Via }
  | { readonly kind: 'owner'; readonly via: Via }
  /** An unauthenticated caller, which may only unlock with the password. */
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

/** The context of a request, over any transport. */
export interface RequestContext {
  readonly caller: Caller
  readonly requestId: string
  /** How long a request waits for the owner's decision before the response is 202, in ms. Default 25,000, at most 120,000. */
  readonly waitMs?: number
  /**
   * A repeated request with the same key gets the same response. A different request with the same key gets
   * `IDEMPOTENCY_CONFLICT`.
   */
  readonly idempotencyKey?: string
  /** Aborted when the caller disconnects. The request then stops waiting for an approval. */
  readonly signal?: AbortSignal
  /** Called when the request begins to wait for the owner's decision. Must not throw. */
  readonly onAsked?: (asked: Asked) => void
}

/** An open approval that a request waits for. */
export interface Asked {
  readonly approvalId: string
  readonly expiresAtMs: number
}

/** The context of operations that never wait and keep no Idempotency-Key. */
export type OwnerContext = Pick<RequestContext, 'caller' | 'requestId'>

/** Access checks, and log entries of the owner's actions. */
export interface Gate {
  /** Admits operations of the owner that need an unlocked vault. @throws `OWNER_REQUIRED`, `UNAUTHORIZED`, `VAULT_LOCKED` */
  open(context: OwnerContext): void
  /**
   * Admits an agent or the owner while the vault is unlocked. @throws `UNAUTHORIZED`, `VAULT_LOCKED`, `RATE_LIMIT_EXCEEDED`
   */
  known(context: OwnerContext): KnownCaller
  note(action: AuditAction, requestId: string, text: string): Promise<unknown>
}

export function createGate(vault: Vault, audit: AuditLog, assertAdmitted: AssertAdmitted): Gate {
  return {
    open({ caller }) {
      assertOwner(caller)
      vault.assertUnlocked()
    },
    known({ caller }) {
      assertKnown(caller)
      vault.assertUnlocked()
      assertAdmitted(caller)
      return caller
    },
    note: (action, requestId, text) =>
      audit.append({ agent: 'owner', action, status: 'APPROVED', requestId, note: text }),
  }
}

/**
 * Maximum wrong tokens per minute from one address. More attempts could fill the log, although guessing a token is hopeless.
 */
const MAX_FAILURES = 120

const MINUTE_MS = 60_000
/** Maximum keys in memory. If there are more, idle keys are dropped. */
const MAX_KEYS = 10_000

/**
 * Makes a token bucket per key. A key may make `limit` requests at once, and its bucket refills at `limit` per minute. Unlike
 * with fixed minutes, a caller cannot send twice the limit around a boundary. @throws `RATE_LIMIT_EXCEEDED` with the seconds
 * until the next request
 */
export function createRate(clock: Clock): (key: string, limit: number) => void {
  const buckets = new Map<string, { spent: number; atMs: number }>()
  const spentOf = (key: string, limit: number, now: number): number => {
    const bucket = buckets.get(key)
    if (bucket === undefined) return 0
    const passedMs = Math.max(0, now - bucket.atMs)
    return Math.max(0, bucket.spent - (passedMs * limit) / MINUTE_MS)
  }
  return (key, limit) => {
    const now = clock.now()
    // If the limit was lowered, requests before that delay the key for at most one minute.
    const spent = Math.min(spentOf(key, limit, now), limit)
    const isOver = spent + 1 > limit
    if (buckets.size >= MAX_KEYS && !buckets.has(key)) forgetRested(buckets, now)
    buckets.set(key, { spent: isOver ? spent : spent + 1, atMs: now })
    if (!isOver) return
    throw new VaultError('RATE_LIMIT_EXCEEDED', `Expected at most ${limit} requests a minute.`, {
      retryAfterSeconds: Math.max(1, Math.ceil(((spent + 1 - limit) * MINUTE_MS) / limit / 1_000)),
    })
  }
}

function forgetRested(buckets: Map<string, { readonly atMs: number }>, now: number): void {
  for (const [key, { atMs }] of buckets) if (now - atMs >= MINUTE_MS) buckets.delete(key)
}

/**
 * Checks whether a caller may send requests now. @throws `UNAUTHORIZED` for a revoked agent, `AGENT_SUSPENDED` after a
 * restore, `RATE_LIMIT_EXCEEDED`
 */
export type AssertAdmitted = (caller: KnownCaller) => void

/** Counts all requests of an agent against the owner's limit per minute, or the default limit. */
export function createAssertAdmitted(clock: Clock): AssertAdmitted {
  const takeOne = createRate(clock)
  return (caller) => {
    if (caller.kind !== 'agent') return
    const { id, requestsPerMinute, revokedAt } = caller.agent
    if (revokedAt !== null) throw new VaultError('UNAUTHORIZED')
    if (isSuspended(caller.agent)) throw new VaultError('AGENT_SUSPENDED')
    takeOne(id, requestsPerMinute ?? DEFAULT_REQUESTS_PER_MINUTE)
  }
}

export function createFailureRate(clock: Clock = systemClock): { count(address: string): void } {
  const take = createRate(clock)
  return { count: (address) => take(address, MAX_FAILURES) }
}
