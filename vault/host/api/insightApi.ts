import type { Agents } from '../../agents/agents.ts'
import { VaultError } from '../../errors/error.ts'
import { eventView, ownerEventView } from '../activity.ts'
import { budgetOf, checkBudget } from '../budgetView.ts'
import { assertOwner } from '../caller.ts'
import type { VaultParts } from '../parts.ts'
import type { OwnerContext } from '../requestContext.ts'
import type { VaultApi } from '../vaultApi.ts'
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
