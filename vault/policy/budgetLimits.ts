import type { AssetTable } from '../effects/assets.ts'
import type { BudgetLimit } from '../ports/budget.ts'
import type { Policy } from './policy.ts'
import { feeLimitsOf, limitsOf } from './rules.ts'

/**
 * A policy as the limits that the budget book holds an agent to when an amount is reserved. The native asset of a chain
 * gets the room of its rule and of the chain's fees together, because the book counts them in one sum.
 */
export function budgetLimits(policy: Policy, agentId: string, assets: AssetTable): BudgetLimit[] {
  const subject = { kind: 'agent', agentId } as const
  const limits = new Map<string, BudgetLimit>()
  for (const rule of policy.assets) {
    const { id } = assets.bySymbol(rule.chain, rule.symbol)!
    const { perTransaction, perDay } = limitsOf(policy, id, assets)!
    limits.set(id, { subject, asset: id, perTransaction, perDay })
  }
  for (const { name } of assets.chains.all) {
    const fees = feeLimitsOf(policy, name, assets)
    const { id } = fees.asset
    const own = limits.get(id)
    limits.set(id, {
      subject,
      asset: id,
      perTransaction: (own?.perTransaction ?? 0n) + fees.perTransaction,
      perDay: (own?.perDay ?? 0n) + fees.perDay,
    })
  }
  return [...limits.values()]
}
