import type { AssetTable } from '../effects/assets.ts'
import { feesId } from '../effects/budgetSpends.ts'
import type { BudgetLimit } from '../ports/budget.ts'
import type { Policy } from './policy.ts'
import { feeLimitsOf, limitsOf } from './rules.ts'

/**
 * A policy as the limits that the budget book holds an agent to when an amount is reserved. Fees have limits of their own.
 * They count under the native asset of their chain as well: a rule for that one bounds what is sent in a day and all fees
 * together, and in a transaction what is sent, with the fee on top. Without such a rule only fees are there.
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
    if (fees === undefined) continue
    const { perTransaction, perDay } = fees
    const { id } = fees.asset
    const [own, ownDay] = [limits.get(id)?.perTransaction ?? 0n, limits.get(id)?.perDay ?? 0n]
    limits.set(feesId(fees.asset), { subject, asset: feesId(fees.asset), perTransaction, perDay })
    limits.set(id, {
      subject,
      asset: id,
      perTransaction: own + perTransaction,
      perDay: ownDay === 0n ? perDay : ownDay,
    })
  }
  return [...limits.values()]
}
