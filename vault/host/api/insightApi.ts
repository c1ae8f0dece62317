import { canonicalAddress } from '../../../core/domain/address.ts'
import type { Agent } from '../../agents/agent.ts'
import type { Agents } from '../../agents/agents.ts'
import { claimedAmount } from '../../effects/claimedAmount.ts'
import { VaultError } from '../../errors/error.ts'
import type { BudgetBook } from '../../ports/budget.ts'
import { budgetRequest } from '../../requests/agentRequests.ts'
import { eventView, ownerEventView } from '../activity.ts'
import { assertOwner, type OwnerContext } from '../caller.ts'
import { accountOn } from '../chainOf.ts'
import type { VaultParts } from '../parts.ts'
import { budgetError } from '../reserve.ts'
import type { Rules } from '../rules.ts'
import type { BudgetLine, VaultApi } from '../vaultApi.ts'
import type { Gate } from './gate.ts'

type Insight = 'scopes' | 'assets' | 'budget' | 'checkBudget' | 'activity' | 'verifyActivity'

/** What agents see of themselves, and the owner of everybody: grants, budgets, the log. */
export function createInsightApi(parts: VaultParts, gate: Gate, registry: Agents): Pick<VaultApi, Insight> {
  const { assets, rules } = parts
  const { audit, budget, records } = parts.vault
  /** The last query of each agent that is under way. */
  const querying = new Map<string, Promise<unknown>>()

  /** One query of an agent at a time: each reads files of megabytes, and many at once would fill the memory. */
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
    scopes(context) {
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
    assets(context) {
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
    budget(context, name) {
      gate.known(context)
      return { budget: budgetOf(agentFor(context, name), rules, budget) }
    },
    checkBudget(input, context) {
      gate.known(context)
      return checkBudget(input, agentFor(context, undefined), context.requestId, rules, parts)
    },
    async activity(query, context) {
      const caller = gate.known(context)
      if (caller.kind === 'owner') {
        const page = await audit.query(query)
        return withCursor(page.entries.map(ownerEventView), page.cursor)
      }
      const { id, name } = caller.agent
      if (query.agent !== undefined && query.agent !== name)
        throw new VaultError('SCOPE_DENIED', 'Expected your own name: an agent sees its own activity.')
      const page = await inTurn(id, () => audit.query({ ...query, agent: name }))
      return withCursor(page.entries.map(eventView), page.cursor)
    },
    async verifyActivity({ caller }) {
      assertOwner(caller)
      return audit.verify()
    },
  }

  /** Whose budget is asked for: one's own, or, by the owner, anybody's. */
  function agentFor({ caller }: OwnerContext, name: string | undefined) {
    if (caller.kind === 'agent') return caller.agent
    const agent = name === undefined ? undefined : (registry.byName(name) ?? registry.get(name))
    if (agent === undefined) throw new VaultError('NOT_FOUND', 'Expected ?agent= with the name of an agent.')
    return agent
  }
}

const withCursor = <T>(events: readonly T[], cursor: string | undefined) =>
  cursor === undefined ? { events } : { events, cursor }

/** What an agent used today and may use, asset by asset; amounts in smallest units, as text. */
function budgetOf(agent: Agent, rules: Rules, budget: BudgetBook): readonly BudgetLine[] {
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
      per_transaction: textOf(limit?.perTransaction),
      per_day: textOf(limit?.perDay),
      resets_at: use.resetsAt,
    }
  })
}

/** `{chain, amount, currency?, recipient?, agent_name}` → whether it would fit now. Counts nothing. */
function checkBudget(
  input: unknown,
  agent: Agent,
  requestId: string,
  rules: Rules,
  parts: VaultParts,
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
