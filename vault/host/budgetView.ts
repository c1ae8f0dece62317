import type { Agent } from '../agents/agent.ts'
import { canonicalAddress } from '../effects/canonicalAddress.ts'
import { claimedAmount } from '../effects/claimedAmount.ts'
import { VaultError } from '../errors/error.ts'
import type { BudgetBook } from '../ports/budget.ts'
import { budgetRequest } from '../requests/agentRequests.ts'
import { accountOn } from './chainOf.ts'
import type { VaultParts } from './parts.ts'
import { budgetError } from './reserve.ts'
import type { Rules } from './rules.ts'
import type { BudgetLine } from './vaultApi.ts'

/** What an agent used today and may use, asset by asset; amounts in smallest units, as text. */
export function budgetOf(agent: Agent, rules: Rules, budget: BudgetBook): readonly BudgetLine[] {
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
export function checkBudget(
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
