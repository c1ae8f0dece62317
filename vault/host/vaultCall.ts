import { createHash } from 'node:crypto'
import type {
  ApprovalKind,
  RequestView,
  VaultCaller,
  VaultOperation,
  VaultPhase,
  VaultResponse,
  VaultSlot,
} from '../../core/plugin/vault.ts'
import type { GrantVerb } from '../agents/grant.ts'
import type { ApprovalRecord } from '../approvals/approval.ts'
import type { PartDraft } from '../approvals/shownPart.ts'
import type { Decoded } from '../effects/effect.ts'
import type { ClaimProof } from '../effects/proveClaim.ts'
import type { AuditAction } from '../ports/audit.ts'
import type { BudgetLimit, Spend } from '../ports/budget.ts'
import { type Asked, type Caller, callerId, callerName, type Via } from './caller.ts'

export interface VaultCallInit {
  readonly operation: VaultOperation
  readonly requestId: string
  readonly caller: Caller
  readonly input: Readonly<Record<string, unknown>>
  readonly startedAtMs: number
  readonly waitMs: number
  readonly idempotencyKey: string | null
  readonly signal: AbortSignal | undefined
  readonly onAsked: ((asked: Asked) => void) | undefined
}

/**
 * One request in the pipeline of its operation. The constructor sets every field, so that V8 gives all instances one hidden
 * class. The owner's plugins get a copy of some fields, see `pluginView`.
 */
export class VaultCall {
  readonly operation: VaultOperation
  readonly requestId: string
  readonly who: Caller
  readonly caller: VaultCaller
  readonly via: Via
  readonly input: Readonly<Record<string, unknown>>
  readonly startedAtMs: number
  readonly waitMs: number
  readonly idempotencyKey: string | null
  readonly signal: AbortSignal | undefined
  readonly onAsked: ((asked: Asked) => void) | undefined

  scope: string | null = null
  request: RequestView | null = null
  plan: Plan | null = null
  /** The limits against which this request's money counts. */
  limits: readonly BudgetLimit[] = []
  /** Why the owner's approval is needed. Empty when the rules allow the request. */
  readonly reasons: string[] = []
  /** What the agent claims that its request does. Null where it makes no claim. */
  claimed: string | null = null
  /** What the request's bytes do, as far as they were decoded. */
  found: string | null = null
  approval: ApprovalRecord | null = null
  failure: Error | null = null
  /** True if the outcome of this request is already in the log. */
  isLogged = false

  constructor(init: VaultCallInit) {
    this.operation = init.operation
    this.requestId = init.requestId
    this.who = init.caller
    this.caller = Object.freeze({
      kind: init.caller.kind === 'agent' ? 'agent' : 'owner',
      id: callerId(init.caller),
      name: callerName(init.caller),
    })
    this.via = init.caller.via
    this.input = init.input
    this.startedAtMs = init.startedAtMs
    this.waitMs = init.waitMs
    this.idempotencyKey = init.idempotencyKey
    this.signal = init.signal
    this.onAsked = init.onAsked
  }

  /** Identifies the agent's exact request and, if it has one, its Idempotency-Key. */
  get key(): string {
    return hashOf('approval', this.caller.id, this.operation, this.plan!.requestHash, this.idempotencyKey)
  }

  /**
   * The id by which the log identifies an action that must not be repeated under its Idempotency-Key, such as a write. A
   * repeated write would undo later writes. Undefined without a key, and for all other actions. The budget identifies payments,
   * and signing the same bytes again does no harm.
   */
  get onceAct(): string | undefined {
    const { repeat, verb } = this.plan!
    return (repeat === 'once' || verb === 'write') && this.idempotencyKey !== null
      ? `key_${this.key}`
      : undefined
  }

  /** Requires the owner's approval, even if the owner's rules allow the request. */
  requireApproval(reason: string): void {
    this.reasons.push(reason)
  }
}

/** The view of a request for plugins. It has the meaning without the bytes, because byte arrays cannot be frozen. */
export const viewOf = ({
  kind,
  chain,
  from,
  effects,
  warnings,
  isOpaque,
  plainWords,
}: Decoded): RequestView => Object.freeze({ kind, chain, from, effects, warnings, isOpaque, plainWords })

/**
 * Exactly what one request would do. The vault shows, counts and performs it from this plan, which is built once and never
 * changed.
 */
export interface Plan {
  readonly action: AuditAction
  readonly kind: ApprovalKind
  /** Returns everything that is signed, sent or stored. Called when the owner's approval is needed. */
  readonly parts: () => readonly PartDraft[]
  /** The scope that a grant has to cover. `verb` is the verb that the grant has to allow. */
  readonly scope: string
  readonly verb: GrantVerb
  readonly chain: string | null
  /** The exact amount as decimal text, and its currency symbol. Both are null if no money is named. */
  readonly amount: string | null
  readonly currency: string | null
  readonly recipient: string | null
  readonly plainWords: readonly string[]
  readonly warnings: readonly string[]
  readonly isOpaque: boolean
  /** The decoded request for plugins. Null where nothing is signed. */
  readonly view: RequestView | null
  /** SHA-256 of the request in hex. A repeated request has the same hash. */
  readonly requestHash: string
  /** SHA-256 in hex of what will be done. It is the hash of the frozen bytes or, without bytes, of the canonical form. */
  readonly frozenHash: string
  /** JSON that the approval stores, if the request alone does not determine what will be done. */
  readonly frozen: unknown
  /** What the budgets count. Empty where nothing is spent. */
  readonly spends: readonly Spend[]
  /** Input to the owner's rules. Absent where nothing is signed. */
  readonly judged?: { readonly decoded: Decoded; readonly proof: ClaimProof | null }
  /** Why the operation itself requires the owner's approval. Empty if it does not. */
  readonly reasons: readonly string[]
  /**
   * What a repeated request does. `same`: it gives the same result and no harm, so the approved response is stored for it.
   * `new`: it is a new request. `once`: the action must never run twice, so it counts as done before it starts.
   */
  readonly repeat: 'same' | 'new' | 'once'
  /** Refuses a request that the owner could not allow either. Called after the grants and before the owner is asked. */
  readonly check?: () => void
  /**
   * Performs the action after it was granted. `attempt` is different for each call. `spendId` is the reservation that counts its
   * money. Null if none does.
   */
  readonly act: (attempt: string, spendId: string | null) => Promise<VaultResponse>
}

/** The common fields of a plan that moves no money. */
export const withoutMoney = {
  kind: 'read',
  parts: () => [],
  chain: null,
  amount: null,
  currency: null,
  recipient: null,
  warnings: [],
  isOpaque: false,
  view: null,
  frozen: null,
  spends: [],
  reasons: [],
} as const satisfies Partial<Plan>

/** SHA-256 in hex over values in order. The input separates each value from its neighbors. */
export function hashOf(...parts: readonly (string | number | boolean | null | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) {
    const bytes = part instanceof Uint8Array ? part : Buffer.from(JSON.stringify(part), 'utf8')
    hash.update(`${part instanceof Uint8Array ? 'b' : 'j'}${bytes.length}:`)
    hash.update(bytes)
  }
  return hash.digest('hex')
}

/** Identifies an agent's signature over exactly these bytes. The claim, and the rule or approval that allows it, do not matter. */
export const signatureId = (agentId: string, action: AuditAction, frozenHash: string): string =>
  `sig_${hashOf('signature', agentId, action, frozenHash)}`

/** A hook of a part of the host, which sees the whole call. */
export type HostHook = (
  x: VaultCall,
) => VaultResponse | undefined | void | Promise<VaultResponse | undefined | void>
export type HostHooks = { readonly [P in VaultPhase]?: HostHook }

/** A part of the host in the form of a plugin, so that the kernel can order parts and plugins together. */
export interface HostPlugin {
  readonly name: string
  readonly slots?: {
    readonly [P in VaultPhase]?: {
      readonly reads?: readonly VaultSlot[]
      readonly writes?: readonly VaultSlot[]
    }
  }
  route(operation: VaultOperation): HostHooks | undefined
}
