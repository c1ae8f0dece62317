import { canonicalAddress } from '../../core/domain/address.ts'
import { parseAmount } from '../../core/domain/money.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { AssetTable } from '../effects/assets.ts'
import { feesId } from '../effects/budgetSpends.ts'
import { VaultError } from '../errors/error.ts'
import { applicablePolicy } from '../policy/applicablePolicy.ts'
import { budgetLimits } from '../policy/budgetLimits.ts'
import { checkPolicy } from '../policy/checkPolicy.ts'
import { type DenyCode, evaluate, lacksRule } from '../policy/evaluate.ts'
import type { Policy } from '../policy/policy.ts'
import { limitsOf as limitsOfAsset } from '../policy/rules.ts'
import type { BudgetBook, BudgetLimit } from '../ports/budget.ts'
import type { Records } from '../ports/records.ts'
import type { JudgedRequest, Judgement, Rules } from './rules.ts'

/** A bound on everything that leaves the vault, or on what one recipient gets, whoever asks. Decimal strings. */
export interface VaultLimit {
  readonly chain: string
  readonly symbol: string
  readonly perTransaction?: string
  readonly perDay?: string
  readonly recipient?: string
}

/** A bound on the fees of all agents together on one chain, rent of accounts included. Decimal strings of the native asset. */
export interface VaultFeeLimit {
  readonly chain: string
  readonly perTransaction?: string
  readonly perDay?: string
}

interface VaultRules {
  readonly limits: readonly VaultLimit[]
  readonly fees?: readonly VaultFeeLimit[]
}

/** The policies that the owner stores: one an agent, `default` for agents without, and `vault` for all together. */
export interface StoredRules extends Rules {
  list(): readonly { readonly id: string; readonly policy: unknown }[]
  get(id: string): unknown
  /** @throws `VALIDATION_ERROR` that says what was expected */
  set(id: string, policy: unknown): Promise<void>
  delete(id: string): Promise<boolean>
  /** Rules that do not apply any more, because the configuration lacks what they name: by policy, in words. */
  lost(): readonly LostRules[]
}

export interface LostRules {
  /** Of the policy: an agent, `default` or `vault`. */
  readonly id: string
  readonly about: readonly string[]
}

export interface StoredRulesParts {
  readonly records: Records
  readonly budget: BudgetBook
  readonly assets: AssetTable
  readonly clock: Clock
}

const idPattern = /^[A-Za-z0-9_-]{1,64}$/

/** What an agent without any rules may do: ask, for everything. */
const askForAll: Judgement = { outcome: 'ask', reasons: ['No rule says what this agent may do.'], limits: [] }

export function createStoredRules({ records, budget, assets, clock }: StoredRulesParts): StoredRules {
  let policies = new Map<string, unknown>()
  /** What of them can be judged by. */
  let applicable = new Map<string, Policy>()
  let lost: LostRules[] = []
  let vaultLimits: readonly BudgetLimit[] = []
  /** Reading amounts out of a policy takes longer than judging by it. */
  let limits = new Map<string, readonly BudgetLimit[]>()

  const policyOf = (agentId: string): Policy | undefined =>
    applicable.get(agentId) ?? applicable.get('default')

  function refresh(): void {
    limits = new Map()
    applicable = new Map()
    lost = []
    const lose = (id: string, about: readonly string[]) => {
      if (about.length > 0) lost.push({ id, about })
    }
    for (const [id, stored] of policies) {
      if (id === 'vault') continue
      const read = applicablePolicy(stored as Policy, assets)
      applicable.set(id, read.policy)
      lose(id, read.lost)
    }
    const { limits: amounts, fees = [] } = (policies.get('vault') as VaultRules | undefined) ?? { limits: [] }
    const gone: string[] = []
    /** A bound that can not be read any more leaves no room; where there is nothing that it could be for, it is left out. */
    const orGone = <T extends object>(
      what: string,
      limit: T,
      read: (limit: T, assets: AssetTable) => BudgetLimit,
    ): BudgetLimit[] => {
      for (const one of [limit, { ...limit, perTransaction: '0', perDay: '0' }]) {
        try {
          return [read(one, assets)]
        } catch (error) {
          if (!(error instanceof VaultError) && !isTollgateError(error)) throw error
          if (one === limit) gone.push(what)
        }
      }
      return []
    }
    vaultLimits = [
      ...amounts.flatMap((limit) => orGone(`${limit.symbol} on ${limit.chain}`, limit, readVaultLimit)),
      ...fees.flatMap((limit) => orGone(`fees on ${limit.chain}`, limit, readVaultFees)),
    ]
    lose('vault', gone)
  }
  function limitsOf(agentId: string): readonly BudgetLimit[] {
    const known = limits.get(agentId)
    if (known !== undefined) return known
    const policy = policyOf(agentId)
    const own = policy === undefined ? [] : budgetLimits(policy, agentId, assets)
    const all = [...own, ...vaultLimits]
    limits.set(agentId, all)
    return all
  }

  return {
    load() {
      policies = new Map()
      for (const { id } of records.list('policy')) policies.set(id, records.getJson('policy', id))
      refresh()
    },
    judge({ agent, decoded, proof, isCounted = false }: JudgedRequest): Judgement {
      const bounds = limitsOf(agent.id)
      const reasons: string[] = []
      if (
        proof === null &&
        decoded.effects.some((effect) => effect.kind === 'transfer' || effect.kind === 'allowance')
      )
        reasons.push('The agent does not say what this moves.')
      if (proof !== null && !proof.ok) reasons.push(proof.message)
      const policy = policyOf(agent.id)
      if (policy === undefined)
        return { ...askForAll, reasons: [...askForAll.reasons, ...reasons], limits: bounds }
      const used = budget.usedAll({ kind: 'agent', agentId: agent.id })
      const spentToday = new Map(used.map(({ asset, spent, reserved }) => [asset, spent + reserved]))
      const verdict = evaluate({ decoded, policy, nowMs: clock.now(), spentToday, isCounted, assets })
      if (verdict.decision === 'deny') {
        const { message, code, missing } = verdict
        const refusal = { outcome: 'refuse', reasons: [message], code, limits: bounds } as const
        if (missing !== undefined) return { ...refusal, action: adding(missing, agent.name) }
        const action = changing[code]
        return action === undefined ? refusal : { ...refusal, action: `${action} of agent ${agent.name}.` }
      }
      if (verdict.decision === 'ask') reasons.unshift(...verdict.reasons)
      return { outcome: reasons.length === 0 ? 'auto' : 'ask', reasons, limits: bounds }
    },
    refusalFor(agent, asset) {
      const policy = policyOf(agent.id)
      if (policy === undefined || limitsOfAsset(policy, asset.id, assets) !== undefined) return undefined
      const { message, missing } = lacksRule(asset)
      return { message, action: adding(missing, agent.name) }
    },
    limitsOf: (agent) => limitsOf(agent.id),
    walletsOf(agent) {
      const recipients = policyOf(agent.id)?.recipients
      const listed = Array.isArray(recipients) ? recipients.map(({ address }) => address) : []
      const limited = vaultLimits.flatMap(({ subject }) =>
        subject.kind === 'recipient' ? [subject.recipient] : [],
      )
      return [...listed, ...limited]
    },
    lost: () => lost,
    list: () => [...policies].map(([id, policy]) => ({ id, policy })),
    get: (id) => policies.get(id),
    async set(id, policy) {
      if (!idPattern.test(id))
        throw new VaultError('VALIDATION_ERROR', 'Expected the id of an agent, default or vault.')
      const problem = id === 'vault' ? vaultProblem(policy, assets) : policyProblem(policy, assets)
      if (problem !== undefined) throw new VaultError('VALIDATION_ERROR', problem)
      await records.putJson('policy', id, policy)
      policies.set(id, policy)
      refresh()
    },
    async delete(id) {
      const isThere = await records.delete('policy', id)
      policies.delete(id)
      refresh()
      return isThere
    },
  }
}

/** What is to be done about a refusal that is not about a missing rule, where that is not what its code says. */
const changing: Readonly<Partial<Record<DenyCode, string>>> = {
  SCOPE_DENIED: 'The owner can change the rules',
  FEE_EXCESSIVE: 'Lower the fee, or the owner can allow more by fees in the rules',
}

/** How a missing rule is added, for the agent to pass on and for the owner to do. */
function adding({ chain, what }: { chain: string; what: string }, agent: string): string {
  const name = /^[\w.@-]+$/.test(agent) ? agent : `'${agent}'`
  return `The owner can add a rule for ${what} on ${chain} to agent ${agent}, on the approvals page or with: tollgate vault policies set ${name} --file rules.json`
}

function policyProblem(policy: unknown, assets: AssetTable): string | undefined {
  const checked = checkPolicy(policy, assets)
  return checked.ok ? undefined : checked.message
}

function vaultProblem(policy: unknown, assets: AssetTable): string | undefined {
  const form =
    'Expected {limits: [{chain, symbol, perTransaction?, perDay?, recipient?}], fees?: [{chain, perTransaction?, perDay?}]}, all strings.'
  const { limits, fees = [], ...rest } = (policy ?? {}) as Partial<Record<string, unknown>>
  if (!Array.isArray(limits) || !Array.isArray(fees) || Object.keys(rest).length > 0) return form
  const isPlain = (limit: unknown, known: readonly string[]): boolean =>
    typeof limit === 'object' &&
    limit !== null &&
    Object.entries(limit).every(([key, value]) => known.includes(key) && typeof value === 'string')
  const known = ['chain', 'perTransaction', 'perDay']
  if (!limits.every((limit) => isPlain(limit, [...known, 'symbol', 'recipient']))) return form
  if (!fees.every((limit) => isPlain(limit, known))) return form
  try {
    for (const limit of limits) readVaultLimit(limit, assets)
    for (const limit of fees) readVaultFees(limit, assets)
  } catch (error) {
    return error instanceof VaultError || isTollgateError(error) ? error.message : form
  }
  return undefined
}

function readVaultFees({ chain, ...bounds }: VaultFeeLimit, assets: AssetTable): BudgetLimit {
  // A chain that is not known is refused by what reads the limit.
  const symbol = assets.chains.named(chain)?.native.symbol ?? ''
  const limit = readVaultLimit({ chain, symbol, ...bounds }, assets)
  return { ...limit, asset: feesId({ id: limit.asset }) }
}

function readVaultLimit(limit: VaultLimit, assets: AssetTable): BudgetLimit {
  const { chain, symbol, perTransaction, perDay, recipient } = limit
  const facts = assets.chains.named(chain)
  const asset = facts === undefined ? undefined : assets.bySymbol(facts.name, symbol)
  if (facts === undefined || asset === undefined)
    throw new VaultError(
      'VALIDATION_ERROR',
      'Expected a chain and the symbol of an asset that is pinned there.',
    )
  const payee = recipient === undefined ? undefined : canonicalAddress(facts.family, recipient)
  if (recipient !== undefined && payee === undefined)
    throw new VaultError('VALIDATION_ERROR', 'Expected recipient to be an address of the chain.')
  return {
    subject: payee === undefined ? { kind: 'vault' } : { kind: 'recipient', recipient: payee },
    asset: asset.id,
    ...(perTransaction !== undefined && { perTransaction: parseAmount(perTransaction, asset.decimals) }),
    ...(perDay !== undefined && { perDay: parseAmount(perDay, asset.decimals) }),
  }
}
