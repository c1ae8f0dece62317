import { type AssetRef, type AssetTable, pinnedAssets } from '../effects/assets.ts'
import { feesId } from '../effects/budgetSpends.ts'
import type { VaultChain } from '../effects/chains.ts'
import type { Decoded } from '../effects/decoded.ts'
import { type Effect, isTakenBack, mayAllowNft } from '../effects/effect.ts'
import { goesTo } from '../effects/goesTo.ts'
import { amountWords } from '../effects/plainWords.ts'
import { spendOf } from '../effects/spendOf.ts'
import { isWithinHours } from './isWithinHours.ts'
import type { Policy } from './policy.ts'
import { feeLimitsOf, limitsOf } from './rules.ts'

/** A signature that somebody else may use later is approved by a rule for at most a day: longer, today's limits are no bound. */
const longestUseSeconds = 86_400n
/** What begins later than this is a payment of another day, counted today. */
const latestBeginSeconds = 3_600n
/**
 * Above it, a transaction's own size may cost more than what it allows for fees: chains that write it into another one (Base,
 * other rollups) charge for each byte beside the gas, and nothing in the bytes bounds that. Transfers have less than 300.
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
  /** The owner decides; the reasons are for showing. */
  | { readonly decision: 'ask'; readonly reasons: readonly string[] }
  | {
      readonly decision: 'deny'
      readonly code: DenyCode
      readonly message: string
      /** What the owner could write a rule for: `USDC`, or the fees of a chain, which come with a rule for any asset there. */
      readonly missing?: { readonly chain: VaultChain; readonly what: string }
    }

export interface EvaluateRequest {
  readonly decoded: Decoded
  readonly policy: Policy
  /** Milliseconds since 1970. */
  readonly nowMs: number
  /** By asset id, atomic units: what this agent spent and reserved today, fees included. Approved by whomever. */
  readonly spentToday: ReadonlyMap<string, bigint>
  /** Whether this very request was counted before, so that it adds nothing to a day. Default: false. */
  readonly isCounted?: boolean
  readonly assets?: AssetTable
}

/**
 * What the owner's rules say to a request. A refusal is final, whoever is asked; among the rest the owner is asked as soon
 * as one reason is there. Sends and allowances count at their full value, fees and rent beside them. An asset without a
 * rule is refused, also where nothing of it is moved, and so are fees on a chain without one. Nothing opaque is ever
 * approved here, nor what moves nothing and only costs its fee, an account that is paid for somebody else, a transaction of
 * unusual size, or a signature that can be used for more than a day.
 *
 * The day's budget is decided again, atomically, by the budget book when the amount is reserved: this is a judgement on a
 * snapshot.
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
    judgeAmounts(request, assets, reasons)
  if (denial !== undefined) return denial
  if (policy.hours !== undefined && !isWithinHours(policy.hours, nowMs)) {
    if (policy.hours.outside === 'deny')
      return deny('SCOPE_DENIED', 'The agent may not do this at this hour.')
    reasons.push('It is outside the hours in which rules approve.')
  }
  return reasons.length === 0 ? { decision: 'auto' } : { decision: 'ask', reasons: [...new Set(reasons)] }
}

function judgeOpaque({ isOpaque }: Decoded, policy: Policy, reasons: string[]): Verdict | undefined {
  if (!isOpaque) return undefined
  if (policy.opaque === 'deny')
    return deny('TX_OPAQUE', 'The agent may only ask for what is understood completely.')
  reasons.push('A part of the request was not understood: it may do anything.')
}

/** Transactions have no time of their own. A permit's deadline is when it is submitted last, see {@link AllowanceEffect}. */
function judgeTimes({ effects }: Decoded, nowMs: number, reasons: string[]): void {
  const nowSeconds = BigInt(Math.floor(nowMs / 1_000))
  for (const effect of effects) {
    if (effect.kind !== 'transfer' && effect.kind !== 'allowance') continue
    const until = effect.kind === 'transfer' ? effect.validBefore : effect.submitBefore
    if (until !== undefined && until > nowSeconds + longestUseSeconds)
      reasons.push('The signature could be used for more than a day.')
    if (effect.kind === 'transfer' && (effect.validAfter ?? 0n) > nowSeconds + latestBeginSeconds)
      reasons.push('The time in which the signature can be used begins later.')
  }
}

function judgeSize({ signKind, frozenBytes }: Decoded, reasons: string[]): void {
  if (signKind === 'evm-transaction' && frozenBytes.length > USUAL_BYTES)
    reasons.push(
      `The transaction has ${frozenBytes.length} bytes: some networks charge for them beside the fee, without a bound.`,
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
    if (allowances === 'deny') return deny('SCOPE_DENIED', 'The agent may not let others take money later.')
    if (allowances === 'ask') reasons.push('The request lets somebody take money later.')
  }
  if (effects.some((effect) => effect.kind === 'account' && effect.owner !== from))
    reasons.push('The request pays for an account for somebody else.')
  const { messages = 'ask' } = policy
  if (messages === 'deny' && effects.every((effect) => effect.kind === 'note'))
    return deny('SCOPE_DENIED', 'The agent may not sign messages.')
  if (kind === 'message') {
    if (messages === 'ask') reasons.push('The request signs a text.')
    // Contract wallets take signed hashes, and an agent can search for one that is a text.
    if (signKind === 'evm-message' && signingBytes.length === 32)
      reasons.push('The text has as many bytes as a hash has.')
    return undefined
  }
  // What is opaque may move anything, and is asked for already.
  const isMoving = (effect: Effect): boolean =>
    effect.kind === 'transfer'
      ? effect.amount > 0n && !goesTo(effect, from, assets)
      : effect.kind === 'allowance' && effect.amount > 0n
  const isEmpty = (effect: Effect): boolean => effect.kind === 'transfer' && effect.amount === 0n
  if (isOpaque) return undefined
  if (!effects.some(isMoving)) reasons.push('The request moves nothing: it only costs its fee.')
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
    return deny('SCOPE_DENIED', 'The request pays somebody who is not among the allowed recipients.')
  reasons.push('The recipient is not among the allowed ones.')
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
    // To take an allowance back costs its fee, and may always be asked for.
    if (!isNamed && !(effect.kind === 'allowance' && isTakenBack(effect))) return lacksRule(effect.asset)
  }
  for (const [id, { asset, amount }] of moved) {
    if (!asset.isPinned) {
      reasons.push(`The token ${asset.address} is not known.`)
      continue
    }
    const limits = limitsOf(policy, id, assets)!
    const words = (value: bigint) => amountWords(asset, value)
    if (amount > limits.perTransaction)
      return deny(
        'BUDGET_EXCEEDED_TX',
        `Expected at most ${words(limits.perTransaction)} in one request, got ${words(amount)}.`,
      )
    // The fee comes out of the same purse as what is moved.
    const added = isCounted ? 0n : amount + (id === native.id ? fee : 0n)
    const today = (spentToday.get(id) ?? 0n) + added
    if (today > limits.perDay)
      return deny(
        'BUDGET_EXCEEDED_DAILY',
        `Expected at most ${words(limits.perDay)} a day; with this request it would be ${words(today)}.`,
      )
    if (amount > limits.autoApproveUpTo)
      reasons.push(`${words(amount)} is above ${words(limits.autoApproveUpTo)}, up to which rules approve.`)
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
      ...deny('SCOPE_DENIED', `The agent has no rule for anything on ${chain}, and so none for fees there.`),
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
      `Expected at most ${words(limits.perDay)} of fees a day; with this request it would be ${words(today)}.`,
    )
  if (fee > limits.autoApproveUpTo)
    reasons.push(
      `The fee of ${words(fee)} is above ${words(limits.autoApproveUpTo)}, up to which rules approve.`,
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
