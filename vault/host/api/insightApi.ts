import { canonicalAddress } from '../../../core/domain/address.ts'
import type { Agent, Agents } from '../../agents/agents.ts'
import { claimedAmount } from '../../effects/proveClaim.ts'
import { VaultError } from '../../errors/error.ts'
import type { AuditEntry, AuditQuery } from '../../ports/audit.ts'
import type { BudgetBook } from '../../ports/budget.ts'
import { type activityQuery, budgetRequest } from '../../requests/agentRequests.ts'
import type { InputOf } from '../../requests/request.ts'
import { assertOwner, type Gate, type OwnerContext } from '../caller.ts'
import { accountOn } from '../chainOf.ts'
import type { ChargeReport } from '../chargeChecks.ts'
import type { VaultDeps } from '../deps.ts'
import type { StoredRules } from '../ownerRules.ts'
import { budgetError } from '../phases/perform.ts'

export interface BudgetLine {
  readonly asset: string
  readonly spent: string
  readonly reserved: string
  /** What was given back today, because less was charged than was counted. It is not in `spent`. */
  readonly given_back: string
  readonly per_transaction: string | null
  readonly per_day: string | null
  readonly resets_at: string
}

/** Grants, budgets and the log. An agent gets its own, the owner all of them. */
export function createInsightApi(parts: VaultDeps, gate: Gate, registry: Agents) {
  const { assets, rules, charges } = parts
  const { audit, budget, records } = parts.vault
  /** The last running query of each agent. */
  const querying = new Map<string, Promise<unknown>>()

  /** Runs one query per agent at a time, because each reads files of megabytes and many at once would fill the memory. */
  function inTurn<T>(agentId: string, query: () => Promise<T>): Promise<T> {
    const before = querying.get(agentId) ?? Promise.resolve()
    const queried = before.then(query, query)
    querying.set(agentId, queried)
    const over = (): void => {
      if (querying.get(agentId) === queried) querying.delete(agentId)
    }
    queried.then(over, over)
    return queried
  }

  return {
    scopes(context: OwnerContext) {
      const caller = gate.known(context)
      if (caller.kind === 'agent') {
        const lines = caller.agent.grants
        return {
          scopes: lines.map(({ scope, verb, asks }) => ({ scope, verb, approval: asks ? 'ask' : 'rules' })),
        }
      }
      const stored = [...records.list('value'), ...records.list('credential')]
      return { scopes: stored.map(({ id }) => ({ scope: id, verb: 'read', approval: 'rules' })) }
    },
    /** The assets on the enabled chains that rules and claims can name. `id` equals the id in a budget line. */
    assets(context: OwnerContext) {
      gate.known(context)
      const known = parts.enabled.flatMap((chain) => [assets.native(chain), ...assets.tokensOf(chain)])
      return {
        assets: known.map(({ id, chain, symbol, decimals, address }) => ({
          id,
          chain,
          symbol,
          decimals,
          native: address === 'native',
        })),
      }
    },
    budget(context: OwnerContext, name?: string) {
      gate.known(context)
      return { budget: budgetOf(agentFor(context, name), rules, budget) }
    },
    /** Checks now what the payments of today have cost. @throws `OWNER_REQUIRED`, `VAULT_LOCKED`, `VALIDATION_ERROR` without a node */
    async checkCharges(context: OwnerContext): Promise<ChargeReport> {
      gate.open(context)
      if (charges.hasNode) return charges.checkNow()
      throw new VaultError(
        'VALIDATION_ERROR',
        'The vault gives nothing back, because its configuration has no RPC node of an EVM chain.',
        { action: 'Set evmRpc in the configuration of the vault, and start it again.' },
      )
    },
    checkBudget(input: unknown, context: OwnerContext) {
      gate.known(context)
      return checkBudget(input, agentFor(context, undefined), context.requestId, rules, parts)
    },
    async activity(query: AuditQuery, context: OwnerContext) {
      const caller = gate.known(context)
      if (caller.kind === 'owner') {
        const page = await audit.query(query)
        return withCursor(page.entries.map(ownerEventView), page.cursor)
      }
      const { id, name } = caller.agent
      if (query.agent !== undefined && query.agent !== name)
        throw new VaultError(
          'SCOPE_DENIED',
          'Expected your own name, because an agent can see only its own activity.',
        )
      const page = await inTurn(id, () => audit.query({ ...query, agent: name }))
      return withCursor(page.entries.map(eventView), page.cursor)
    },
    async verifyActivity({ caller }: OwnerContext) {
      assertOwner(caller)
      return audit.verify()
    },
  }

  /** The agent whose budget is requested: the caller itself, or, for the owner, any agent. */
  function agentFor({ caller }: OwnerContext, name: string | undefined) {
    if (caller.kind === 'agent') return caller.agent
    const agent = name === undefined ? undefined : (registry.byName(name) ?? registry.get(name))
    if (agent === undefined) throw new VaultError('NOT_FOUND', 'Expected ?agent= with the name of an agent.')
    return agent
  }
}

const withCursor = <T>(events: readonly T[], cursor: string | undefined) =>
  cursor === undefined ? { events } : { events, cursor }

/** What an agent has used today and its limits, per asset. Amounts are in smallest units, as text. */
function budgetOf(agent: Agent, rules: StoredRules, budget: BudgetBook): readonly BudgetLine[] {
  const limits = rules.limitsOf(agent).filter(({ subject }) => subject.kind === 'agent')
  const used = new Map(budget.usedAll({ kind: 'agent', agentId: agent.id }).map((use) => [use.asset, use]))
  const ids = new Set([...limits.map(({ asset }) => asset), ...used.keys()])
  return [...ids].map((asset) => {
    const limit = limits.find((one) => one.asset === asset)
    const use = used.get(asset) ?? budget.used({ kind: 'agent', agentId: agent.id }, asset)
    return {
      asset,
      spent: String(use.spent),
      reserved: String(use.reserved),
      given_back: String(use.givenBack),
      per_transaction: textOf(limit?.perTransaction),
      per_day: textOf(limit?.perDay),
      resets_at: use.resetsAt,
    }
  })
}

/** Whether the amount of `{chain, amount, currency?, recipient?, agent_name}` fits into the budget now. Nothing is reserved. */
function checkBudget(
  input: unknown,
  agent: Agent,
  requestId: string,
  rules: StoredRules,
  parts: VaultDeps,
): { ok: boolean; code: string | null; details: unknown } {
  const { chain, amount, currency, recipient: recipientText } = budgetRequest.check(input)
  const { facts } = accountOn(parts, chain)
  const asset =
    currency === undefined ? parts.assets.native(facts.name) : parts.assets.bySymbol(facts.name, currency)
  if (asset === undefined)
    throw new VaultError('VALIDATION_ERROR', `currency: Expected an asset of ${facts.name}.`)
  const claimed = claimedAmount(amount, asset.decimals)
  if (!claimed.ok) throw new VaultError('VALIDATION_ERROR', claimed.message)
  const recipient = recipientText === undefined ? undefined : canonicalAddress(facts.family, recipientText)
  if (recipientText !== undefined && recipient === undefined)
    throw new VaultError('VALIDATION_ERROR', 'recipient: Expected an address of the chain.')
  const lacking = rules.refusalFor(agent, asset)
  if (lacking !== undefined) return { ok: false, code: 'SCOPE_DENIED', details: lacking }
  const room = parts.vault.budget.check({
    id: requestId,
    agentId: agent.id,
    spends: [{ asset: asset.id, amount: claimed.atomic, ...(recipient !== undefined && { recipient }) }],
    limits: rules.limitsOf(agent),
  })
  if (room.ok) return { ok: true, code: null, details: null }
  const refusal = budgetError(room)
  return { ok: false, code: refusal.code, details: refusal.details }
}

const textOf = (amount: bigint | undefined): string | null => (amount === undefined ? null : String(amount))

/** An activity event as the interface document defines it. If no money is involved, `amount` is 0 and `currency` empty. */
export interface ActivityEvent {
  readonly timestamp: string
  readonly agent: string
  readonly action: string
  readonly amount: number
  readonly currency: string
  readonly status: string
  /** The agent's claim, set for a refused request. */
  readonly claimed?: string
  /** What the request's bytes do, set for a refused request. */
  readonly found?: string
}

/** Additional fields that only the owner sees. */
interface ActivityDetails {
  readonly seq: number
  readonly hash: string
  /** The exact amount as text. */
  readonly amount: string | null
  readonly scope: string | null
  readonly recipient: string | null
  readonly chain: string | null
  readonly approval_id: string | null
  readonly decision_hash: string | null
  readonly request_id: string | null
  readonly code: string | null
  readonly note: string | null
}

const eventView = (entry: AuditEntry): ActivityEvent => ({
  timestamp: entry.timestamp,
  agent: entry.agent,
  action: entry.action,
  amount: numberOf(entry.amount),
  currency: entry.currency ?? '',
  status: entry.status,
  ...(entry.claimed !== undefined && { claimed: entry.claimed }),
  ...(entry.found !== undefined && { found: entry.found }),
})

const ownerEventView = (entry: AuditEntry): ActivityEvent & { readonly details: ActivityDetails } => ({
  ...eventView(entry),
  details: {
    seq: entry.seq,
    hash: entry.hash,
    amount: entry.amount ?? null,
    scope: entry.scope ?? null,
    recipient: entry.recipient ?? null,
    chain: entry.chain ?? null,
    approval_id: entry.approvalId ?? null,
    decision_hash: entry.decisionHash ?? null,
    request_id: entry.requestId ?? null,
    code: entry.code ?? null,
    note: entry.note ?? null,
  },
})

/** The amount as a number, for display only. `details.amount` is exact, because a JSON number cannot represent every amount. */
function numberOf(amount: string | undefined): number {
  const value = Number(amount ?? 0)
  return Number.isFinite(value) ? value : 0
}

/** Parses an activity query. @throws `VALIDATION_ERROR` for an invalid time, in the form of a schema error */
export function auditQueryOf(input: InputOf<typeof activityQuery>): AuditQuery {
  const { since, until, ...rest } = input
  return {
    ...rest,
    ...(since !== undefined && { since: timeOf('since', since) }),
    ...(until !== undefined && { until: timeOf('until', until) }),
  }
}

function timeOf(path: string, text: string): string {
  const isTime = /^\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:\d{2}))?$/.test(text)
  const ms = isTime ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(ms)) return new Date(ms).toISOString()
  const message = 'Expected an ISO 8601 time such as 2026-11-21T10:00:00Z.'
  throw new VaultError('VALIDATION_ERROR', `${path}: ${message}`, { details: [{ path, message }] })
}
