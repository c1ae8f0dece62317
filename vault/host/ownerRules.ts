import { canonicalAddress } from '../../core/domain/address.ts'
import { parseAmount } from '../../core/domain/money.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Agent } from '../agents/agents.ts'
import type { AssetRef, AssetTable } from '../effects/assets.ts'
import { type Decoded, feesId } from '../effects/effect.ts'
import type { ClaimProof } from '../effects/proveClaim.ts'
import type { VaultCode } from '../errors/codes.ts'
import { VaultError } from '../errors/error.ts'
import { checkPolicy } from '../policy/checkPolicy.ts'
import { type DenyCode, evaluate, lacksRule } from '../policy/evaluate.ts'
import { applicablePolicy, budgetLimits, limitsOf as limitsOfAsset, type Policy } from '../policy/policy.ts'
import type { BudgetBook, BudgetLimit } from '../ports/budget.ts'
import type { Records } from '../ports/records.ts'

/**
 * A limit over all agents, either on all money that leaves the vault, or on what one recipient gets. Amounts are decimal
 * strings.
 */
export interface VaultLimit {
  readonly chain: string
  readonly symbol: string
  readonly perTransaction?: string
  readonly perDay?: string
  readonly recipient?: string
}

/**
 * A limit on the network fees of all agents together on one chain, including account rent. Amounts are decimal strings of the
 * native asset.
 */
export interface VaultFeeLimit {
  readonly chain: string
  readonly perTransaction?: string
  readonly perDay?: string
}

interface VaultRules {
  readonly limits: readonly VaultLimit[]
  readonly fees?: readonly VaultFeeLimit[]
}

/** A decoded request, as input to the owner's rules. */
export interface JudgedRequest {
  readonly agent: Agent
  readonly decoded: Decoded
  /** The proof of the agent's claim. Null if the request makes no claim, as for a message. */
  readonly proof: ClaimProof | null
  /** True if an identical request was already counted, so the day's usage includes this request. */
  readonly isCounted?: boolean
}

/** The decision of the owner's rules. */
export interface Judgement {
  readonly outcome: 'auto' | 'ask' | 'refuse'
  /** The reasons, as messages for the owner (`ask`) or the agent (`refuse`). */
  readonly reasons: readonly string[]
  /** The error code, set with `refuse`. */
  readonly code?: VaultCode
  /** Set with `refuse` if a rule is missing. States how the owner adds that rule. */
  readonly action?: string
  /** The limits that apply to this agent. The budget enforces them in the same step in which it counts. */
  readonly limits: readonly BudgetLimit[]
}

export interface LostRules {
  /** The id of the policy: an agent, `default` or `vault`. */
  readonly id: string
  readonly about: readonly string[]
}

export interface StoredRulesDeps {
  readonly records: Records
  readonly budget: BudgetBook
  readonly assets: AssetTable
  readonly clock: Clock
}

const idPattern = /^[A-Za-z0-9_-]{1,64}$/

/** The decision for an agent without any rules. */
const askForAll: Judgement = { outcome: 'ask', reasons: ['This agent has no rules.'], limits: [] }

/**
 * The policies that the owner stores: one per agent, `default` for agents without their own, and `vault` for all agents
 * together. They are loaded from the records after each unlock. Judging a request is synchronous and changes nothing.
 */
export class StoredRules {
  readonly #records: Records
  readonly #budget: BudgetBook
  readonly #assets: AssetTable
  readonly #clock: Clock
  #policies = new Map<string, unknown>()
  /** The parts of the policies that apply in this configuration. */
  #applicable = new Map<string, Policy>()
  #lost: LostRules[] = []
  #vaultLimits: readonly BudgetLimit[] = []
  /** Parsed limits. Parsing the amounts of a policy takes longer than judging a request. */
  #limits = new Map<string, readonly BudgetLimit[]>()

  constructor({ records, budget, assets, clock }: StoredRulesDeps) {
    this.#records = records
    this.#budget = budget
    this.#assets = assets
    this.#clock = clock
  }

  load(): void {
    this.#policies = new Map()
    for (const { id } of this.#records.list('policy'))
      this.#policies.set(id, this.#records.getJson('policy', id))
    this.#refresh()
  }

  judge({ agent, decoded, proof, isCounted = false }: JudgedRequest): Judgement {
    const limits = this.limitsOf(agent)
    const reasons: string[] = []
    if (
      proof === null &&
      decoded.effects.some((effect) => effect.kind === 'transfer' || effect.kind === 'allowance')
    )
      reasons.push('The agent did not state what the request moves.')
    if (proof !== null && !proof.ok) reasons.push(proof.message)
    const policy = this.#policyOf(agent.id)
    if (policy === undefined) return { ...askForAll, reasons: [...askForAll.reasons, ...reasons], limits }
    const used = this.#budget.usedAll({ kind: 'agent', agentId: agent.id })
    const verdict = evaluate({
      decoded,
      policy,
      nowMs: this.#clock.now(),
      spentToday: new Map(used.map(({ asset, spent, reserved }) => [asset, spent + reserved])),
      isCounted,
      assets: this.#assets,
    })
    if (verdict.decision === 'deny') {
      const { message, code, missing } = verdict
      const refusal = { outcome: 'refuse', reasons: [message], code, limits } as const
      if (missing !== undefined) return { ...refusal, action: adding(missing, agent.name) }
      const action = changing[code]
      return action === undefined ? refusal : { ...refusal, action: `${action} of agent ${agent.name}.` }
    }
    if (verdict.decision === 'ask') reasons.unshift(...verdict.reasons)
    return { outcome: reasons.length === 0 ? 'auto' : 'ask', reasons, limits }
  }

  /**
   * The refusal for an asset that an agent's rules do not name. Undefined if the rules name the asset, or the agent has no
   * rules.
   */
  refusalFor(
    agent: Agent,
    asset: AssetRef,
  ): { readonly message: string; readonly action: string } | undefined {
    const policy = this.#policyOf(agent.id)
    if (policy === undefined || limitsOfAsset(policy, asset.id, this.#assets) !== undefined) return undefined
    const { message, missing } = lacksRule(asset)
    return { message, action: adding(missing, agent.name) }
  }

  /** The limits of an agent, for `/v1/vault/budget`. */
  limitsOf({ id }: Agent): readonly BudgetLimit[] {
    const known = this.#limits.get(id)
    if (known !== undefined) return known
    const policy = this.#policyOf(id)
    const own = policy === undefined ? [] : budgetLimits(policy, id, this.#assets)
    const all = [...own, ...this.#vaultLimits]
    this.#limits.set(id, all)
    return all
  }

  /** Addresses of recipients that an agent's rules name, on any chain. */
  walletsOf({ id }: Agent): readonly string[] {
    const recipients = this.#policyOf(id)?.recipients
    const listed = Array.isArray(recipients) ? recipients.map(({ address }) => address) : []
    const limited = this.#vaultLimits.flatMap(({ subject }) =>
      subject.kind === 'recipient' ? [subject.recipient] : [],
    )
    return [...listed, ...limited]
  }

  /** Rules that no longer apply, because the configuration lacks the chains or assets that they name. Messages by policy. */
  get lost(): readonly LostRules[] {
    return this.#lost
  }

  list(): readonly { readonly id: string; readonly policy: unknown }[] {
    return [...this.#policies].map(([id, policy]) => ({ id, policy }))
  }

  get(id: string): unknown {
    return this.#policies.get(id)
  }

  /** @throws `VALIDATION_ERROR` that states what was expected */
  async set(id: string, policy: unknown): Promise<void> {
    if (!idPattern.test(id))
      throw new VaultError('VALIDATION_ERROR', 'Expected the id of an agent, default or vault.')
    const problem = id === 'vault' ? vaultProblem(policy, this.#assets) : policyProblem(policy, this.#assets)
    if (problem !== undefined) throw new VaultError('VALIDATION_ERROR', problem)
    await this.#records.putJson('policy', id, policy)
    this.#policies.set(id, policy)
    this.#refresh()
  }

  async delete(id: string): Promise<boolean> {
    const isThere = await this.#records.delete('policy', id)
    this.#policies.delete(id)
    this.#refresh()
    return isThere
  }

  #policyOf(agentId: string): Policy | undefined {
    return this.#applicable.get(agentId) ?? this.#applicable.get('default')
  }

  #refresh(): void {
    this.#limits = new Map()
    this.#applicable = new Map()
    this.#lost = []
    for (const [id, stored] of this.#policies) {
      if (id === 'vault') continue
      const read = applicablePolicy(stored as Policy, this.#assets)
      this.#applicable.set(id, read.policy)
      if (read.lost.length > 0) this.#lost.push({ id, about: read.lost })
    }
    const { limits, fees = [] } = (this.#policies.get('vault') as VaultRules | undefined) ?? { limits: [] }
    const gone: string[] = []
    this.#vaultLimits = [
      ...limits.flatMap((limit) =>
        this.#orGone(`${limit.symbol} on ${limit.chain}`, limit, readVaultLimit, gone),
      ),
      ...fees.flatMap((limit) => this.#orGone(`fees on ${limit.chain}`, limit, readVaultFees, gone)),
    ]
    if (gone.length > 0) this.#lost.push({ id: 'vault', about: gone })
  }

  /** Reads a limit. An unreadable limit is treated as zero. If its asset no longer exists, the limit is left out. */
  #orGone<T extends object>(
    what: string,
    limit: T,
    read: (limit: T, assets: AssetTable) => BudgetLimit,
    gone: string[],
  ): BudgetLimit[] {
    for (const one of [limit, { ...limit, perTransaction: '0', perDay: '0' }]) {
      try {
        return [read(one, this.#assets)]
      } catch (error) {
        if (!(error instanceof VaultError) && !isTollgateError(error)) throw error
        if (one === limit) gone.push(what)
      }
    }
    return []
  }
}

/** The remedy for a refusal by an existing rule, where it differs from the remedy of the code. */
const changing: Readonly<Partial<Record<DenyCode, string>>> = {
  SCOPE_DENIED: 'The owner can change the rules',
  FEE_EXCESSIVE: 'Lower the fee, or the owner can allow more by fees in the rules',
}

/** How the owner adds a missing rule. The agent passes this text to the owner. */
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
  // An unknown chain is refused when the limit is read.
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
