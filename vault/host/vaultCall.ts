import type { RequestView, VaultCaller, VaultOperation } from '../../core/plugin/vault.ts'
import type { ApprovalRecord } from '../approvals/approval.ts'
import type { BudgetLimit } from '../ports/budget.ts'
import { type Asked, type Caller, callerId, callerName, type Via } from './caller.ts'
import type { Plan } from './plan.ts'

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
 * One request on its way through its operation's program. All fields are set here, so that every one has one shape.
 * The owner's plugins get a copy of a part of it; see `pluginView`.
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
  /** The limits that the money of this request is held against. */
  limits: readonly BudgetLimit[] = []
  /** Why the owner is asked; empty when the rules allow it by themselves. */
  readonly reasons: string[] = []
  /** What the agent says that its request does; null where it says nothing. */
  claimed: string | null = null
  /** What its bytes do, as far as they were read. */
  found: string | null = null
  approval: ApprovalRecord | null = null
  failure: Error | null = null
  /** True when somebody else has written down what became of this request. */
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

  /** Makes the vault ask the owner, whatever its rules say. */
  requireApproval(reason: string): void {
    this.reasons.push(reason)
  }
}
