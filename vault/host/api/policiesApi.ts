import { formatAmount } from '../../../core/domain/money.ts'
import type { Agent, Agents } from '../../agents/agents.ts'
import { grantFor } from '../../agents/grant.ts'
import type { AssetTable } from '../../effects/assets.ts'
import { VaultError } from '../../errors/error.ts'
import { feeLimitsOf, type Policy } from '../../policy/policy.ts'
import type { BudgetBook } from '../../ports/budget.ts'
import { freezeJson } from '../../sandbox/wire.ts'
import type { Gate, OwnerContext } from '../caller.ts'
import type { StoredRules } from '../ownerRules.ts'

/** Operations of the owner on the rules by which the vault decides without the owner's approval. */
export function createPoliciesApi(
  gate: Gate,
  registry: Agents,
  rules: StoredRules,
  assets: AssetTable,
  budget: BudgetBook,
) {
  /**
   * Resolves an agent's name or id to a policy id. Ids take precedence, because a name must not select the rules of another
   * agent or of all agents.
   */
  const policyId = (id: string): string =>
    isShared(id) || registry.get(id) !== undefined ? id : (registry.byName(id)?.id ?? id)

  return {
    list(context: OwnerContext) {
      gate.open(context)
      return {
        policies: rules.list().map(({ id, policy }) => viewPolicy(id, policy, registry.get(id), assets)),
      }
    },
    get(id: string, context: OwnerContext) {
      gate.open(context)
      const policy = rules.get(policyId(id))
      if (policy === undefined) throw new VaultError('NOT_FOUND', 'No policy has this id.')
      return viewPolicy(policyId(id), policy, registry.get(policyId(id)), assets)
    },
    /** @throws `VALIDATION_ERROR`, also for a chain for which the agent has no signing scope */
    async set(id: string, policy: unknown, context: OwnerContext) {
      gate.open(context)
      const target = policyId(id)
      const agent = registry.get(target)
      if (!isShared(target) && agent === undefined) throw noTarget()
      const frozen = freezeJson(policy)
      const [chain] = agent === undefined ? [] : chainsWithoutScope(frozen, agent, assets)
      if (chain !== undefined)
        throw new VaultError(
          'VALIDATION_ERROR',
          `Agent ${agent!.name} has no scope wallet.${chain}, so a rule for ${chain} would never apply.`,
          {
            action: `Leave ${chain} out of its rules, or give the agent the scope first: tollgate vault agents change ${agent!.name} --scopes ${[...agent!.scopes, `wallet.${chain}`].join(',')}`,
          },
        )
      await rules.set(target, frozen)
      await gate.note('CONFIG', context.requestId, `policy of ${id} set`)
      return viewPolicy(target, policy, agent, assets)
    },
    async delete(id: string, context: OwnerContext) {
      gate.open(context)
      const target = policyId(id)
      const isKnown = isShared(target) || registry.get(target) !== undefined
      if (!isKnown && rules.get(target) === undefined) throw noTarget()
      const deleted = await rules.delete(target)
      if (deleted) await gate.note('CONFIG', context.requestId, `policy of ${id} deleted`)
      return { deleted }
    },
    /**
     * Makes the clock's current day the day of the budgets. The amounts that are already used move to it. See
     * `BudgetBook.resetDay`.
     */
    async resetDay(context: OwnerContext) {
      gate.open(context)
      await budget.resetDay()
      await gate.note('CONFIG', context.requestId, "budgets reset to the clock's current day")
      return { reset: true }
    },
  }
}

/** True for `default`, which agents without own rules have, and for `vault`, which applies to all agents together. */
const isShared = (id: string): boolean => id === 'default' || id === 'vault'

const noTarget = () => new VaultError('NOT_FOUND', 'Expected the name or id of an agent, default, or vault.')

/** A policy as the owner sees it: the stored rules and what follows from them. */
export interface PolicyView {
  readonly id: string
  /** The agent's name, or `default` or `vault`. */
  readonly name: string
  readonly policy: unknown
  /** The fee limits of each chain, with defaults filled in, as decimal strings of `symbol`. */
  readonly fees: readonly {
    readonly chain: string
    readonly symbol: string
    readonly perTransaction?: string
    readonly perDay?: string
    readonly autoApproveUpTo?: string
  }[]
  /** Chains that the policy names although the agent has no scope to sign on them, so their rules do not apply. */
  readonly without_scope: readonly string[]
}

/** @param agent the policy's agent. Undefined for `default` and `vault` */
function viewPolicy(id: string, policy: unknown, agent: Agent | undefined, assets: AssetTable): PolicyView {
  const { fees: written = [] } = policy as Partial<Policy>
  if (id === 'vault') {
    const fees = written.map((fee) => ({
      ...fee,
      symbol: assets.chains.named(fee.chain)?.native.symbol ?? '',
    }))
    return { id, name: id, policy, fees, without_scope: [] }
  }
  const fees = assets.chains.all.flatMap(({ name }) => {
    const limits = feeLimitsOf(policy as Policy, name, assets)
    if (limits === undefined) return []
    const { symbol, decimals } = limits.asset
    const text = (amount: bigint): string => formatAmount(amount, decimals)
    const [perTransaction, perDay] = [text(limits.perTransaction), text(limits.perDay)]
    return [{ chain: name, symbol, perTransaction, perDay, autoApproveUpTo: text(limits.autoApproveUpTo) }]
  })
  return {
    id,
    name: agent?.name ?? id,
    policy,
    fees,
    without_scope: agent === undefined ? [] : chainsWithoutScope(policy, agent, assets),
  }
}

/** The chains that a policy names although the agent has no scope to sign on them. @param policy not validated yet */
function chainsWithoutScope(
  policy: unknown,
  { grants }: Pick<Agent, 'grants'>,
  { chains: known }: AssetTable,
): string[] {
  const { assets = [], fees = [] } = (policy ?? {}) as Partial<Record<'assets' | 'fees', unknown>>
  const named = [assets, fees].flat().map((rule) => known.named((rule as { chain?: unknown } | null)?.chain))
  const chains = new Set(named.flatMap((facts) => (facts === undefined ? [] : [facts.name])))
  return [...chains].filter((chain) => grantFor(grants, 'sign', `wallet.${chain}`) === undefined)
}
