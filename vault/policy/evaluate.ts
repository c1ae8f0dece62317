import { parseAmount } from '../../core/domain/money.ts'
import { type AssetRef, type AssetTable, pinnedAssets, type VaultChain } from '../effects/assets.ts'
import {
  type Decoded,
  type Effect,
  feesId,
  goesTo,
  isTakenBack,
  mayAllowNft,
  spendOf,
} from '../effects/effect.ts'
import { amountWords } from '../effects/plainWords.ts'
import { feeLimitsOf, isWithinHours, limitsOf, type Policy } from './policy.ts'

/**
 * Maximum validity of a signature that a rule may approve, in seconds. Today's limits do not cover a signature that is valid
 * for longer than a day.
 */
const longestUseSeconds = 86_400n
/**
 * Maximum time until a signature becomes valid that a rule may approve, in seconds. A later signature could be used on another
 * day although it counts today.
 */
const latestBeginSeconds = 3_600n
/**
 * Usual maximum size of a transaction, in bytes. Transfers have less than 300. A larger transaction may cost more than a rule
 * allows for fees, because Base and other rollups charge a data fee for each byte, which no field of the transaction limits.
 */
const USUAL_BYTES = 2_048

export type DenyCode =
  | 'BUDGET_EXCEEDED_TX'
  | 'BUDGET_EXCEEDED_DAILY'
  | 'FEE_EXCESSIVE'
  | 'TX_OPAQUE'
  | 'SCOPE_DENIED'

export type Verdict =
  | { readonly decision: 'auto' }
  /** The owner's approval is needed, for these reasons. */
  | { readonly decision: 'ask'; readonly reasons: readonly string[] }
  | {
      readonly decision: 'deny'
      readonly code: DenyCode
      readonly message: string
      /**
       * What the rules lack: an asset such as `USDC`, or the fees of a chain. A rule for any asset of a chain includes its
       * fees.
       */
      readonly missing?: { readonly chain: VaultChain; readonly what: string }
    }

export interface EvaluateRequest {
  readonly decoded: Decoded
  readonly policy: Policy
  /** Current time in ms since 1970. */
  readonly nowMs: number
  /**
   * What this agent spent and reserved today, by asset id in atomic units. It includes fees, and spending that the owner
   * approved.
   */
  readonly spentToday: ReadonlyMap<string, bigint>
  /** True if this exact request was already counted, so that it adds nothing to the day's usage. Default: false. */
  readonly isCounted?: boolean
  readonly assets?: AssetTable
}

/**
 * The verdict of the owner's rules on a request. A refusal is final. Otherwise one reason is enough to require the owner's
 * approval. Transfers, allowances, fees and rent count at their full value. An asset without a rule is refused, even if none of
 * it is moved. Fees on a chain without a rule are refused too. Rules never approve an opaque request, a request that moves
 * nothing and only costs its fee, an account for another owner, a transaction of unusual size, or a signature that is valid for
 * more than a day.
 *
 * Other requests may spend after this verdict, so the budget checks the day's limits again when it reserves the amount.
 */
export function evaluate(request: EvaluateRequest): Verdict {
  const { decoded, policy, nowMs, assets = pinnedAssets } = request
  const reasons: string[] = []
  judgeTimes(decoded, nowMs, reasons)
  judgeSize(decoded, reasons)
  const denial =
    judgeOpaque(decoded, policy, reasons) ??
    judgeKinds(decoded, policy, assets, reasons) ??
    judgeRecipients(decoded, policy, assets, reasons) ??
    judgeDeposits(decoded, policy, reasons) ??
    judgeAmounts(request, assets, reasons)
  if (denial !== undefined) return denial
  if (policy.hours !== undefined && !isWithinHours(policy.hours, nowMs)) {
    if (policy.hours.outside === 'deny')
      return deny('SCOPE_DENIED', 'The rules do not allow this request at this hour.')
    reasons.push('The current time is outside the hours in which rules approve.')
  }
  return reasons.length === 0 ? { decision: 'auto' } : { decision: 'ask', reasons: [...new Set(reasons)] }
}

function judgeOpaque({ isOpaque }: Decoded, policy: Policy, reasons: string[]): Verdict | undefined {
  if (!isOpaque) return undefined
  if (policy.opaque === 'deny')
    return deny('TX_OPAQUE', 'The rules allow only requests that the vault can decode completely.')
  reasons.push('A part of the request could not be decoded and may do anything.')
}

/**
 * Transactions have no time limits of their own. A permit's deadline limits only its submission, see {@link AllowanceEffect}.
 */
function judgeTimes({ effects }: Decoded, nowMs: number, reasons: string[]): void {
  const nowSeconds = BigInt(Math.floor(nowMs / 1_000))
  for (const effect of effects) {
    if (effect.kind !== 'transfer' && effect.kind !== 'allowance') continue
    const until = effect.kind === 'transfer' ? effect.validBefore : effect.submitBefore
    if (until !== undefined && until > nowSeconds + longestUseSeconds)
      reasons.push('The signature is valid for more than a day.')
    if (effect.kind === 'transfer' && (effect.validAfter ?? 0n) > nowSeconds + latestBeginSeconds)
      reasons.push('The signature is not valid yet.')
  }
}

function judgeSize({ signKind, frozenBytes }: Decoded, reasons: string[]): void {
  if (signKind === 'evm-transaction' && frozenBytes.length > USUAL_BYTES)
    reasons.push(
      `The transaction has ${frozenBytes.length} bytes, and some networks charge for them in addition to the fee, without a limit.`,
    )
}

function judgeKinds(
  { kind, effects, from, isOpaque, signKind, signingBytes }: Decoded,
  policy: Policy,
  assets: AssetTable,
  reasons: string[],
): Verdict | undefined {
  if (effects.some((effect) => isMoney(effect) && payerOf(effect) !== from))
    reasons.push('The request moves money of another account.')
  if (effects.some((effect) => effect.kind === 'allowance' && (effect.amount > 0n || mayAllowNft(effect)))) {
    const { allowances = 'ask' } = policy
    if (allowances === 'deny')
      return deny('SCOPE_DENIED', 'The rules do not let this agent allow others to take money later.')
    if (allowances === 'ask') reasons.push('The request lets another account take money later.')
  }
  if (effects.some((effect) => effect.kind === 'account' && effect.owner !== from))
    reasons.push('The request pays for an account of another owner.')
  const { messages = 'ask' } = policy
  if (messages === 'deny' && effects.every((effect) => effect.kind === 'note'))
    return deny('SCOPE_DENIED', 'The agent may not sign messages.')
  if (kind === 'message') {
    if (messages === 'ask') reasons.push('The request signs a text.')
    // Contract wallets accept signed hashes, and an agent can find a hash that is readable text.
    if (signKind === 'evm-message' && signingBytes.length === 32)
      reasons.push('The text is as long as a hash.')
    return undefined
  }
  // An opaque part counts as moving something. It already requires approval.
  const isMoving = (effect: Effect): boolean =>
    effect.kind === 'transfer'
      ? effect.amount > 0n && !goesTo(effect, from, assets)
      : effect.kind === 'allowance' && effect.amount > 0n
  const isEmpty = (effect: Effect): boolean => effect.kind === 'transfer' && effect.amount === 0n
  if (isOpaque) return undefined
  if (!effects.some(isMoving)) reasons.push('The request moves nothing and only costs its fee.')
  else if (effects.some(isEmpty)) reasons.push('A part of the request moves nothing.')
}

function judgeRecipients(
  { effects, chain, from }: Decoded,
  policy: Policy,
  assets: AssetTable,
  reasons: string[],
): Verdict | undefined {
  const { recipients } = policy
  if (recipients === 'any') return undefined
  const known = recipients.filter((recipient) => recipient.chain === chain)
  const isKnown = (effect: Effect): boolean => {
    if (effect.kind === 'transfer') return known.some(({ address }) => goesTo(effect, address, assets))
    if (effect.kind === 'account')
      return effect.owner === from || known.some(({ address }) => address === effect.owner)
    if (effect.kind === 'allowance')
      return isTakenBack(effect) || known.some(({ address }) => address === effect.spender)
    return true
  }
  if (effects.every(isKnown)) return undefined
  if (policy.otherRecipients !== 'ask')
    return deny('SCOPE_DENIED', 'The request pays a recipient that the rules do not allow.')
  reasons.push('The recipient is not on the list of allowed recipients.')
}

function judgeDeposits({ effects }: Decoded, { deposits }: Policy, reasons: string[]): Verdict | undefined {
  for (const effect of effects) {
    if (effect.kind !== 'transfer' || effect.withdrawDelaySeconds === undefined) continue
    if (deposits === 'deny')
      return deny('SCOPE_DENIED', 'The rules do not allow deposits into payment channels.')
    if (deposits === undefined || deposits === 'ask') {
      reasons.push('Deposits into payment channels need your approval.')
      continue
    }
    const { decimals } = effect.asset
    const upTo = decimals === null ? 0n : parseAmount(deposits.autoApproveUpTo, decimals)
    if (effect.amount > upTo)
      reasons.push(`The deposit is above ${deposits.autoApproveUpTo}, the limit for approval by rules.`)
    if (effect.withdrawDelaySeconds > deposits.maxHours * 3_600)
      reasons.push(`The deposit is held for more than ${deposits.maxHours} hours.`)
  }
}

function judgeAmounts(
  { decoded, policy, spentToday, isCounted = false }: EvaluateRequest,
  assets: AssetTable,
  reasons: string[],
): Verdict | undefined {
  const { moved, fee } = spendOf(decoded)
  const native = assets.native(decoded.chain)
  for (const effect of decoded.effects) {
    if (!isMoney(effect) || !effect.asset.isPinned) continue
    const isNamed = limitsOf(policy, effect.asset.id, assets) !== undefined
    // Revoking an allowance costs only its fee, so it needs no rule for its asset.
    if (!isNamed && !(effect.kind === 'allowance' && isTakenBack(effect))) return lacksRule(effect.asset)
  }
  for (const [id, { asset, amount }] of moved) {
    if (!asset.isPinned) {
      reasons.push(`The token ${asset.address} is unknown.`)
      continue
    }
    const limits = limitsOf(policy, id, assets)!
    const words = (value: bigint) => amountWords(asset, value)
    if (amount > limits.perTransaction)
      return deny(
        'BUDGET_EXCEEDED_TX',
        `Expected at most ${words(limits.perTransaction)} in one request, got ${words(amount)}.`,
      )
    // The fee is included if it is paid in the same asset.
    const added = isCounted ? 0n : amount + (id === native.id ? fee : 0n)
    const today = (spentToday.get(id) ?? 0n) + added
    if (today > limits.perDay)
      return deny(
        'BUDGET_EXCEEDED_DAILY',
        `Expected at most ${words(limits.perDay)} per day, got ${words(today)} with this request.`,
      )
    if (amount > limits.autoApproveUpTo)
      reasons.push(
        `${words(amount)} is above ${words(limits.autoApproveUpTo)}, the limit for approval by rules.`,
      )
  }
  if (fee === 0n) return undefined
  const feesBefore = (spentToday.get(feesId(native)) ?? 0n) - (isCounted ? fee : 0n)
  return judgeFee(decoded, fee, policy, feesBefore, assets, reasons)
}

function judgeFee(
  { chain }: Decoded,
  fee: bigint,
  policy: Policy,
  feesBefore: bigint,
  assets: AssetTable,
  reasons: string[],
): Verdict | undefined {
  const limits = feeLimitsOf(policy, chain, assets)
  if (limits === undefined)
    return {
      ...deny(
        'SCOPE_DENIED',
        `The agent has no rule for an asset on ${chain}, so fees on ${chain} are not allowed.`,
      ),
      missing: { chain, what: 'fees' },
    }
  const words = (value: bigint) => amountWords(limits.asset, value)
  if (fee > limits.perTransaction)
    return deny(
      'FEE_EXCESSIVE',
      `Expected fees and rent of at most ${words(limits.perTransaction)}, got ${words(fee)}.`,
    )
  const today = feesBefore + fee
  if (today > limits.perDay)
    return deny(
      'BUDGET_EXCEEDED_DAILY',
      `Expected at most ${words(limits.perDay)} of fees per day, got ${words(today)} with this request.`,
    )
  if (fee > limits.autoApproveUpTo)
    reasons.push(
      `The fee of ${words(fee)} is above ${words(limits.autoApproveUpTo)}, the limit for approval by rules.`,
    )
}

type MoneyEffect = Extract<Effect, { kind: 'transfer' | 'allowance' | 'account' }>

const isMoney = (effect: Effect): effect is MoneyEffect =>
  effect.kind === 'transfer' || effect.kind === 'allowance' || effect.kind === 'account'

const payerOf = (effect: MoneyEffect): string =>
  effect.kind === 'transfer' ? effect.from : effect.kind === 'allowance' ? effect.owner : effect.payer

/** The refusal of an asset that no rule names. */
export function lacksRule({ symbol, chain, address }: AssetRef) {
  const message = `The agent has no rule for ${symbol} on ${chain}.`
  return { ...deny('SCOPE_DENIED', message), missing: { chain, what: symbol ?? address } }
}

const deny = (code: DenyCode, message: string) => ({ decision: 'deny', code, message }) as const
