import type { Agent } from '../agents/agent.ts'
import type { AssetRef } from '../effects/assets.ts'
import type { Decoded } from '../effects/decoded.ts'
import type { ClaimProof } from '../effects/proveClaim.ts'
import type { VaultCode } from '../errors/codes.ts'
import type { BudgetLimit } from '../ports/budget.ts'

/** A decoded request as the owner's rules judge it. */
export interface JudgedRequest {
  readonly agent: Agent
  readonly decoded: Decoded
  /** Null where the request claims nothing, as a message. */
  readonly proof: ClaimProof | null
  /** True where what it costs was counted when it was asked for before: what is used of the day has it in already. */
  readonly isCounted?: boolean
}

/** What the owner's rules say. */
export interface Judgement {
  readonly outcome: 'auto' | 'ask' | 'refuse'
  /** Why, in words for the owner (ask) or the agent (refuse). */
  readonly reasons: readonly string[]
  /** Set with `refuse`. */
  readonly code?: VaultCode
  /** With `refuse`, where a rule is missing: which one, and how the owner adds it. */
  readonly action?: string
  /** The limits that apply to this agent, to be held by the budget book in the same step in which it counts. */
  readonly limits: readonly BudgetLimit[]
}

/** The rules that the owner wrote. Read from the records after each unlock; deciding is pure and synchronous. */
export interface Rules {
  load(): void
  judge(request: JudgedRequest): Judgement
  /** Addresses that mean something to the rules of an agent: recipients that are named, on any chain. */
  walletsOf(agent: Agent): readonly string[]
  /** What an agent is told of an asset that its rules do not name; undefined where they do, and where it has none. */
  refusalFor(agent: Agent, asset: AssetRef): { readonly message: string; readonly action: string } | undefined
  /** The limits of an agent, for `/v1/vault/budget`. */
  limitsOf(agent: Agent): readonly BudgetLimit[]
}
