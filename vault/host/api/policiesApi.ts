import type { Agents } from '../../agents/agents.ts'
import type { AssetTable } from '../../effects/assets.ts'
import { VaultError } from '../../errors/error.ts'
import type { BudgetBook } from '../../ports/budget.ts'
import { freezeJson } from '../freeze.ts'
import type { StoredRules } from '../ownerRules.ts'
import { chainsWithoutScope, viewPolicy } from '../policyView.ts'
import type { VaultApi } from '../vaultApi.ts'
import type { Gate } from './gate.ts'

/** The rules by which the vault decides without asking; the owner's alone. */
export function createPoliciesApi(
  gate: Gate,
  registry: Agents,
  rules: StoredRules,
  assets: AssetTable,
  budget: BudgetBook,
): VaultApi['policies'] {
  /** Ids come first: a name must not take the rules that another agent, or all agents, have. */
  const policyId = (id: string): string =>
    isShared(id) || registry.get(id) !== undefined ? id : (registry.byName(id)?.id ?? id)

  return {
    list(context) {
      gate.open(context)
      return {
        policies: rules.list().map(({ id, policy }) => viewPolicy(id, policy, registry.get(id), assets)),
      }
    },
    get(id, context) {
      gate.open(context)
      const policy = rules.get(policyId(id))
      if (policy === undefined) throw new VaultError('NOT_FOUND', 'There is no policy of this id.')
      return viewPolicy(policyId(id), policy, registry.get(policyId(id)), assets)
    },
    async set(id, policy, context) {
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
    async delete(id, context) {
      gate.open(context)
      const target = policyId(id)
      const isKnown = isShared(target) || registry.get(target) !== undefined
      if (!isKnown && rules.get(target) === undefined) throw noTarget()
      const deleted = await rules.delete(target)
      if (deleted) await gate.note('CONFIG', context.requestId, `policy of ${id} deleted`)
      return { deleted }
    },
    async resetDay(context) {
      gate.open(context)
      await budget.resetDay()
      await gate.note('CONFIG', context.requestId, "the budgets count for the clock's day")
      return { reset: true }
    },
  }
}

/** Rules of agents without any of their own, and of all agents together. */
const isShared = (id: string): boolean => id === 'default' || id === 'vault'

const noTarget = () => new VaultError('NOT_FOUND', 'Expected the name or id of an agent, default, or vault.')
