import { formatAmount } from '../../core/domain/money.ts'
import type { Agent } from '../agents/agent.ts'
import { grantFor } from '../agents/grant.ts'
import type { AssetTable } from '../effects/assets.ts'
import type { Policy } from '../policy/policy.ts'
import { feeLimitsOf } from '../policy/rules.ts'

/** A policy as the owner sees it: what was written, and what follows from it. */
export interface PolicyView {
  readonly id: string
  /** The agent's name; `default` and `vault` as they are. */
  readonly name: string
  readonly policy: unknown
  /** What may go to each chain's network, with the defaults filled in; decimal strings of `symbol`. */
  readonly fees: readonly {
    readonly chain: string
    readonly symbol: string
    readonly perTransaction?: string
    readonly perDay?: string
    readonly autoApproveUpTo?: string
  }[]
  /** Chains that the policy names and the agent has no scope to sign on: what is said about them does not apply. */
  readonly without_scope: readonly string[]
}

/** @param agent whose policy it is; undefined for `default` and `vault` */
export function viewPolicy(
  id: string,
  policy: unknown,
  agent: Agent | undefined,
  assets: AssetTable,
): PolicyView {
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

/** The chains that a policy names and that an agent has no scope to sign on. @param policy in any form: it may be unchecked */
export function chainsWithoutScope(
  policy: unknown,
  { grants }: Pick<Agent, 'grants'>,
  { chains: known }: AssetTable,
): string[] {
  const { assets = [], fees = [] } = (policy ?? {}) as Partial<Record<'assets' | 'fees', unknown>>
  const named = [assets, fees].flat().map((rule) => known.named((rule as { chain?: unknown } | null)?.chain))
  const chains = new Set(named.flatMap((facts) => (facts === undefined ? [] : [facts.name])))
  return [...chains].filter((chain) => grantFor(grants, 'sign', `wallet.${chain}`) === undefined)
}
