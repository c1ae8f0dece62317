import type { ApprovalDesk, VaultAnswer, VaultOperation } from '../../core/plugin/vault.ts'
import type { Agent, AgentView } from '../agents/agent.ts'
import type { AgentChange, Agents, NewAgent } from '../agents/agents.ts'
import type { OwnerSessions } from '../agents/ownerSessions.ts'
import type { ApprovalState, ApprovalView } from '../approvals/approval.ts'
import type { AuditQuery, AuditVerdict } from '../ports/audit.ts'
import type { PairingOffer, PairingSummary } from '../ports/pairings.ts'
import type { VaultState } from '../ports/vault.ts'
import type { pairingRequest } from '../requests/ownerRequests.ts'
import type { InputOf } from '../requests/request.ts'
import type { ActivityEvent } from './activity.ts'
import type { CustodyApi } from './api/custodyApi.ts'
import type { VaultEvent } from './bus.ts'
import type { OwnerContext, RequestContext, Via } from './caller.ts'
import type { Capabilities } from './capabilities.ts'
import type { OwnerWarning } from './ownerWarnings.ts'
import type { PolicyView } from './policyView.ts'

export interface BudgetLine {
  readonly asset: string
  readonly spent: string
  readonly reserved: string
  readonly per_transaction: string | null
  readonly per_day: string | null
  readonly resets_at: string
}

/**
 * Everything that can be asked of the vault, one method an operation. HTTP, MCP, the relay and the approvals page all call
 * this, so that none of them can do what another can not. Every method throws {@link VaultError}s only, or something
 * unexpected that a transport turns into a plain 500.
 */
export interface VaultApi {
  /** What an agent that comes this way can ask for. Default: `direct`. */
  capabilities(via?: Via): Capabilities
  /** Any operation of the pipeline by its name: `get_address {chain}`, `vault_read {scope}`, `vault_sign_tx {…}` … */
  request(operation: VaultOperation, input: unknown, context: RequestContext): Promise<VaultAnswer>

  state(): VaultState
  /** What the owner should know about the open vault, and how to mend it; for anybody else nothing. */
  warnings(context: OwnerContext): readonly OwnerWarning[]
  unlock(password: unknown, context: OwnerContext): Promise<{ unlocked: true; expires_at: string }>
  lock(context: OwnerContext): Promise<{ locked: true }>

  scopes(context: OwnerContext): {
    scopes: readonly { scope: string; verb: string; approval: 'ask' | 'rules' }[]
  }
  /** The assets that rules and claims can name, on the chains that are offered; `id` is the one of a budget's line. */
  assets(context: OwnerContext): {
    assets: readonly { id: string; chain: string; symbol: string; decimals: number; native: boolean }[]
  }
  budget(context: OwnerContext, agent?: string): { budget: readonly BudgetLine[] }
  checkBudget(input: unknown, context: OwnerContext): { ok: boolean; code: string | null; details: unknown }
  activity(
    query: AuditQuery,
    context: OwnerContext,
  ): Promise<{ events: readonly ActivityEvent[]; cursor?: string }>
  verifyActivity(context: OwnerContext): Promise<AuditVerdict>

  approvals: {
    list(context: OwnerContext, filter?: { status?: ApprovalState }): { approvals: readonly ApprovalView[] }
    get(id: string, context: OwnerContext): ApprovalView
    /** @param secondWord what the owner typed, where the approval's `second_word` wants it */
    approve(
      id: string,
      decisionHash: unknown,
      context: OwnerContext,
      secondWord?: unknown,
    ): Promise<ApprovalView>
    deny(id: string, context: OwnerContext): Promise<ApprovalView>
    /** The agent's own way out; the owner's too. */
    cancel(id: string, context: OwnerContext): Promise<ApprovalView>
  }
  /** For approval channels in this process: questions, and the owner's answers to them. */
  desk: Omit<ApprovalDesk, 'trouble'>

  agents: {
    list(context: OwnerContext): { agents: readonly AgentView[] }
    add(agent: NewAgent, context: OwnerContext): Promise<AgentView & { token: string }>
    update(id: string, change: AgentChange, context: OwnerContext): Promise<AgentView>
    rotate(id: string, context: OwnerContext): Promise<AgentView & { token: string }>
    revoke(id: string, context: OwnerContext): Promise<AgentView>
  }
  policies: {
    list(context: OwnerContext): { policies: readonly PolicyView[] }
    get(id: string, context: OwnerContext): PolicyView
    /** @throws `VALIDATION_ERROR`, also for a chain that the agent has no scope to sign on */
    set(id: string, policy: unknown, context: OwnerContext): Promise<PolicyView>
    delete(id: string, context: OwnerContext): Promise<{ deleted: boolean }>
    /** Budgets count for the clock's day from now on, with what was used; see `BudgetBook.resetDay`. */
    resetDay(context: OwnerContext): Promise<{ reset: true }>
  }
  pairings: {
    list(context: OwnerContext): { pairings: readonly PairingSummary[] }
    create(input: InputOf<typeof pairingRequest>, context: OwnerContext): Promise<PairingOffer>
    /** The owner says whether both sides show the same four words. */
    confirm(id: string, isSame: boolean, context: OwnerContext): Promise<{ id: string }>
    /** Lets one go on that a restore suspended. */
    resume(id: string, context: OwnerContext): Promise<{ id: string }>
    /** Gives the vault its next key for proxies; those that are paired follow by themselves. */
    rotateKey(context: OwnerContext): Promise<{ generation: number }>
    revoke(id: string, context: OwnerContext): Promise<{ id: string }>
  }
  /** Keys, password and backups, on the owner's socket only. */
  custody: CustodyApi
  /** A session of the approvals page; only whoever speaks on the owner's socket may make one. */
  createOwnerSession(context: OwnerContext): { token: string; expires_at: string }
  /** The way into the approvals page in a browser. */
  page: {
    /** A link that opens the page once; only for whoever speaks on the owner's socket. */
    link(context: OwnerContext): { url: string; expires_at: string }
    /** The code of such a link → a session. @throws `SIGN_IN_EXPIRED` */
    signIn(code: string, context: OwnerContext): Promise<{ token: string; expires_at: string }>
    /** Ends every session and every link. */
    signOut(context: OwnerContext): Promise<{ signed_out: true }>
  }

  /** Events of this caller: the owner hears all, an agent of its own approvals. Returns how to stop. */
  watch(context: OwnerContext, listener: (event: VaultEvent) => void): () => void

  /** For transports: who a token belongs to. */
  readonly registry: Agents
  readonly sessions: OwnerSessions
  /** The agent of this id as a caller, for the relay and MCP, which authenticate in their own way. */
  agentOf(id: string): Agent | undefined
  close(): Promise<void>
}
