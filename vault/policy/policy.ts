import { parseAmount } from '../../core/domain/money.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import { type AssetTable, accountRent, type PinnedAsset, type VaultChain } from '../effects/assets.ts'
import { feesId } from '../effects/effect.ts'
import type { BudgetLimit } from '../ports/budget.ts'

/** An agent's limits for one asset. Amounts are exact, in whole units, as decimal strings. */
export interface AssetRule {
  readonly chain: VaultChain
  /** Symbol of a pinned asset, such as `USDC` or `ETH`. */
  readonly symbol: string
  /** Maximum per request. A request above it is refused. */
  readonly perTransaction: string
  /** Maximum per UTC day, including requests that the owner approved. A request above it is refused. */
  readonly perDay: string
  /** Maximum amount that needs no approval by the owner. With `0` every request needs approval. */
  readonly autoApproveUpTo: string
}

/**
 * An agent's limits for the network costs of one chain, which are fees and rent of new accounts, in whole native units as
 * decimal strings. Without this rule, a chain with a rule for an asset has the default limits, and any other chain allows no
 * fees. See {@link import('./policy.ts').feeLimitsOf}.
 */
export interface FeeRule {
  readonly chain: VaultChain
  /** Maximum per request. A request above it is refused. Default: a day's fees, at most the chain's pinned maximum. */
  readonly perTransaction?: string
  /** Maximum total fees of a UTC day. A request above it is refused. Default: derived from the daily spending limit. */
  readonly perDay?: string
  /** Maximum fee that needs no approval by the owner. Default: the chain's usual fee. */
  readonly autoApproveUpTo?: string
}

/** Deposits into payment channels that need no approval by the owner. `recipients` says to whom. */
export interface DepositRule {
  /** Maximum deposit in whole units of its token, as a decimal string. */
  readonly autoApproveUpTo: string
  /** Longest time in hours until the owner gets back what is left. */
  readonly maxHours: number
}

/** Hours of the day in which rules may approve. At other times a request needs the owner's approval or is refused. */
export interface HoursRule {
  /** Minutes since midnight, from 0 to 1439. If `fromMinute` is after `toMinute`, the hours span midnight. */
  readonly fromMinute: number
  readonly toMinute: number
  /** IANA time zone of the minutes, such as `Europe/Vienna`. */
  readonly timeZone: string
  readonly outside: 'ask' | 'deny'
}

/**
 * What the owner allows one agent. Everything that the policy does not name is refused, so an agent without rules can sign
 * nothing. A policy is validated once, when it is stored ({@link import('./checkPolicy.ts').checkPolicy}).
 */
export interface Policy {
  readonly assets: readonly AssetRule[]
  readonly fees?: readonly FeeRule[]
  /** Addresses that may be paid, by chain. `any` allows all addresses. */
  readonly recipients: 'any' | readonly { readonly chain: VaultChain; readonly address: string }[]
  /** What happens to a payment to another recipient. Default `deny`. */
  readonly otherRecipients?: 'ask' | 'deny'
  /** Allowances, which let others take money later. `auto` counts them against the same limits as transfers. Default `ask`. */
  readonly allowances?: 'auto' | 'ask' | 'deny'
  /**
   * Deposits into payment channels, from which the agent then pays without asking. A rule approves a deposit that is within these limits
   * and within those of its asset. Default `ask`.
   */
  readonly deposits?: DepositRule | 'ask' | 'deny'
  /** Requests that were not decoded completely. Rules never approve them. Default `ask`. */
  readonly opaque?: 'ask' | 'deny'
  /**
   * Messages, such as sign-in texts. A transaction that moves nothing is not a message, and always needs approval. Default
   * `ask`.
   */
  readonly messages?: 'auto' | 'ask' | 'deny'
  readonly hours?: HoursRule
}

const minutesPerHour = 60

/** Whether a time is within the hours of a rule, both ends included. @param nowMs milliseconds since 1970 */
export function isWithinHours({ fromMinute, toMinute, timeZone }: HoursRule, nowMs: number): boolean {
  const parts = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).formatToParts(nowMs)
  const part = (type: string): number => Number(parts.find((p) => p.type === type)!.value)
  const minute = part('hour') * minutesPerHour + part('minute')
  return fromMinute <= toMinute
    ? minute >= fromMinute && minute <= toMinute
    : minute >= fromMinute || minute <= toMinute
}

/** Maximum number of payments per day and chain that the default fee limits cover. */
const maxPayments = 10n

/** The limits of one asset or of a chain's fees, in atomic units. */
interface Limits {
  readonly asset: PinnedAsset
  readonly perTransaction: bigint
  readonly perDay: bigint
  readonly autoApproveUpTo: bigint
}

/**
 * The limits of an asset by its id. Undefined when the policy does not name the asset.
 *
 * @throws {TypeError} when the policy names an asset that is not pinned, which validation prevents
 */
export function limitsOf(policy: Policy, assetId: string, assets: AssetTable): Limits | undefined {
  for (const rule of policy.assets) {
    const asset = assets.bySymbol(rule.chain, rule.symbol)
    if (asset === undefined)
      throw new TypeError(`Expected a pinned asset in the rules, got ${rule.symbol} on ${rule.chain}.`)
    if (asset.id !== assetId) continue
    return {
      asset,
      perTransaction: parseAmount(rule.perTransaction, asset.decimals),
      perDay: parseAmount(rule.perDay, asset.decimals),
      autoApproveUpTo: parseAmount(rule.autoApproveUpTo, asset.decimals),
    }
  }
}

/**
 * The limits of a chain's fees and account rent. Undefined if the policy names neither an asset nor fees of the chain, and
 * therefore allows no fees there.
 *
 * Omitted limits are derived from the spending limits, because the vault has no prices. The number of payments in a day is
 * `perDay` divided by `perTransaction`, rounded up, and at most {@link maxPayments} for all assets of the chain together. Each
 * payment has one usual fee. On Solana it also has the rent of one account for its recipient. One transaction may use the whole
 * day's fees, up to the chain's pinned maximum.
 *
 * @example 5 USDC at once and 20 a day on Base are 4 payments: 0.0004 ETH of fees a day, 0.0001 at once without asking.
 */
export function feeLimitsOf(policy: Policy, chain: VaultChain, assets: AssetTable): Limits | undefined {
  const rule = policy.fees?.find((fee) => fee.chain === chain)
  const asset = assets.native(chain)
  const { maxFee, usualFee } = assets.chains.of(chain)
  const { count, rent } = paymentsOf(policy, chain, assets)
  if (rule === undefined && count === 0n) return undefined
  const read = (text: string | undefined): bigint | undefined =>
    text === undefined ? undefined : parseAmount(text, asset.decimals)
  const [perTransaction, auto] = [read(rule?.perTransaction), read(rule?.autoApproveUpTo)]
  const single = perTransaction ?? max(usualFee + rent, auto ?? 0n)
  const perDay = read(rule?.perDay) ?? single * max(count, 1n)
  const limit = perTransaction ?? max(min(perDay, maxFee), auto ?? 0n)
  return { asset, perTransaction: limit, perDay, autoApproveUpTo: auto ?? min(usualFee, limit) }
}

/** The number of payments in a chain's daily spending limit, and the highest rent of one of them. */
function paymentsOf(
  { assets: rules }: Policy,
  chain: VaultChain,
  assets: AssetTable,
): { count: bigint; rent: bigint } {
  let [count, rent] = [0n, 0n]
  for (const { symbol, ...rule } of rules) {
    const asset = rule.chain === chain ? assets.bySymbol(chain, symbol) : undefined
    if (asset === undefined) continue
    const [perDay, most] = [rule.perDay, rule.perTransaction].map((text) => parseAmount(text, asset.decimals))
    if (perDay === 0n || most === 0n) continue
    count += (perDay! + most! - 1n) / most!
    if (asset.program !== undefined) rent = max(rent, accountRent[asset.program])
  }
  return { count: min(count, maxPayments), rent }
}

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b)
const max = (a: bigint, b: bigint): bigint => (a > b ? a : b)

/**
 * The limits of a policy that the budget enforces when it reserves an amount. Fees have limits of their own. They also count
 * under the native asset of their chain, so a rule for that asset limits the sum of transfer and fee, per transaction and per
 * day. Without a rule for it, only fees are allowed.
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

interface ApplicablePolicy {
  /** The policy without the rules that can no longer be applied. */
  readonly policy: Policy
  /** Messages about the rules that no longer apply. */
  readonly lost: readonly string[]
}

/**
 * The part of a stored policy that still applies. The owner's own chains and assets are in the configuration. They may be
 * removed or get other decimals after the policy was validated and stored. An asset rule that no longer applies is dropped, so
 * its asset is refused. A fee rule that no longer applies stays and allows no fees, because without a rule the default fees
 * would apply.
 */
export function applicablePolicy(stored: Policy, { chains, bySymbol, native }: AssetTable): ApplicablePolicy {
  const lost: string[] = []
  const keep = (isKept: boolean, what: string): boolean => {
    if (!isKept) lost.push(what)
    return isKept
  }
  const assets = stored.assets.filter(({ chain, symbol, ...amounts }) => {
    const asset = chains.named(chain) === undefined ? undefined : bySymbol(chain, symbol)
    const isKnown = asset !== undefined && areReadable(Object.values(amounts), asset.decimals)
    return keep(isKnown, `${symbol} on ${chain}`)
  })
  const fees = stored.fees?.flatMap((rule) => {
    const { chain, ...amounts } = rule
    const isKnown = chains.named(chain) !== undefined
    if (keep(isKnown && areReadable(Object.values(amounts), native(chain).decimals), `fees on ${chain}`))
      return [rule]
    return isKnown ? [{ chain, perTransaction: '0', perDay: '0', autoApproveUpTo: '0' }] : []
  })
  const { recipients } = stored
  return {
    policy: {
      ...stored,
      assets,
      ...(fees !== undefined && { fees }),
      recipients:
        recipients === 'any'
          ? recipients
          : recipients.filter(({ chain }) => chains.named(chain) !== undefined),
    },
    lost,
  }
}

function areReadable(amounts: readonly (string | undefined)[], decimals: number): boolean {
  try {
    for (const amount of amounts) if (amount !== undefined) parseAmount(amount, decimals)
    return true
  } catch (error) {
    if (isTollgateError(error)) return false
    throw error
  }
}
