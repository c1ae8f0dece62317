import { type AssetTable, pinnedAssets } from '../effects/assets.ts'
import type { Decoded } from '../effects/decoded.ts'
import type { Effect } from '../effects/effect.ts'
import { goesTo } from '../effects/goesTo.ts'
import { amountWords } from '../effects/plainWords.ts'
import { spendOf } from '../effects/spendOf.ts'
import { isWithinHours } from './isWithinHours.ts'
import type { Policy } from './policy.ts'
import { feeLimitsOf, limitsOf } from './rules.ts'

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
  | { readonly decision: 'deny'; readonly code: DenyCode; readonly message: string }

export interface EvaluateRequest {
  readonly decoded: Decoded
  readonly policy: Policy
  /** Milliseconds since 1970. */
  readonly nowMs: number
  /** By asset id, atomic units: what this agent spent and reserved today, fees included. Approved by whomever. */
  readonly spentToday: ReadonlyMap<string, bigint>
  readonly assets?: AssetTable
}

/**
 * What the owner's rules say to a request. A refusal is final, whoever is asked; among the rest the owner is asked as soon
 * as one reason is there. Sends and allowances count at their full value, fees and rent beside them; money in an asset
 * without a rule is refused, and nothing opaque is ever approved here.
 *
 * The day's budget is decided again, atomically, by the budget book when the amount is reserved: this is a judgement on a
 * snapshot.
 */
export function evaluate(request: EvaluateRequest): Verdict {
  const { decoded, policy, nowMs, assets = pinnedAssets } = request
  const reasons: string[] = []
  const denial =
    judgeOpaque(decoded, policy, reasons) ??
    judgeKinds(decoded, policy, reasons) ??
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

function judgeKinds({ effects, from }: Decoded, policy: Policy, reasons: string[]): Verdict | undefined {
  if (effects.some((effect) => isMoney(effect) && payerOf(effect) !== from))
    reasons.push('The request moves money of another account.')
  if (effects.some((effect) => effect.kind === 'allowance' && effect.amount > 0n)) {
    const { allowances = 'ask' } = policy
    if (allowances === 'deny') return deny('SCOPE_DENIED', 'The agent may not let others take money later.')
    if (allowances === 'ask') reasons.push('The request lets somebody take money later.')
  }
  // Nothing but notes: a text to sign, or a transaction that only costs its fee.
  if (effects.every((effect) => effect.kind === 'note')) {
    const { messages = 'ask' } = policy
    if (messages === 'deny') return deny('SCOPE_DENIED', 'The agent may not sign messages.')
    if (messages === 'ask') reasons.push('The request signs a text.')
  }
}

function judgeRecipients(
  { effects, chain }: Decoded,
  policy: Policy,
  assets: AssetTable,
  reasons: string[],
): Verdict | undefined {
  const { recipients } = policy
  if (recipients === 'any') return undefined
  const known = recipients.filter((recipient) => recipient.chain === chain)
  const isKnown = (effect: Effect): boolean => {
    if (effect.kind === 'transfer') return known.some(({ address }) => goesTo(effect, address, assets))
    if (effect.kind === 'account') return known.some(({ address }) => address === effect.owner)
    // What is taken back goes to nobody.
    if (effect.kind === 'allowance')
      return effect.amount === 0n || known.some(({ address }) => address === effect.spender)
    return true
  }
  if (effects.every(isKnown)) return undefined
  if (policy.otherRecipients !== 'ask')
    return deny('SCOPE_DENIED', 'The request pays somebody who is not among the allowed recipients.')
  reasons.push('The recipient is not among the allowed ones.')
}

function judgeAmounts(
  { decoded, policy, spentToday }: EvaluateRequest,
  assets: AssetTable,
  reasons: string[],
): Verdict | undefined {
  const { moved, fee } = spendOf(decoded)
  const native = assets.native(decoded.chain)
  for (const [id, { asset, amount }] of moved) {
    if (!asset.isPinned) {
      reasons.push(`The token ${asset.address} is not known.`)
      continue
    }
    const limits = limitsOf(policy, id, assets)
    if (limits === undefined)
      return deny('SCOPE_DENIED', `The agent has no rule for ${asset.symbol} on ${asset.chain}.`)
    const words = (value: bigint) => amountWords(asset, value)
    if (amount > limits.perTransaction)
      return deny(
        'BUDGET_EXCEEDED_TX',
        `Expected at most ${words(limits.perTransaction)} in one request, got ${words(amount)}.`,
      )
    // The fee comes out of the same purse as what is moved.
    const today = (spentToday.get(id) ?? 0n) + amount + (id === native.id ? fee : 0n)
    if (today > limits.perDay)
      return deny(
        'BUDGET_EXCEEDED_DAILY',
        `Expected at most ${words(limits.perDay)} a day; with this request it would be ${words(today)}.`,
      )
    if (amount > limits.autoApproveUpTo)
      reasons.push(`${words(amount)} is above ${words(limits.autoApproveUpTo)}, up to which rules approve.`)
  }
  return fee === 0n ? undefined : judgeFee(decoded, fee, policy, spentToday, assets, reasons)
}

function judgeFee(
  { chain }: Decoded,
  fee: bigint,
  policy: Policy,
  spentToday: ReadonlyMap<string, bigint>,
  assets: AssetTable,
  reasons: string[],
): Verdict | undefined {
  const limits = feeLimitsOf(policy, chain, assets)
  const words = (value: bigint) => amountWords(limits.asset, value)
  if (fee > limits.perTransaction)
    return deny(
      'FEE_EXCESSIVE',
      `Expected a fee of at most ${words(limits.perTransaction)}, got ${words(fee)}.`,
    )
  // Where the native asset has a rule of its own, what is sent of it counts in the same sum: it has that rule's room too.
  const own = limitsOf(policy, limits.asset.id, assets)
  const room = limits.perDay + (own?.perDay ?? 0n)
  const today = (spentToday.get(limits.asset.id) ?? 0n) + fee
  if (today > room)
    return deny(
      'BUDGET_EXCEEDED_DAILY',
      `Expected at most ${words(room)} of fees a day; with this request it would be ${words(today)}.`,
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

const deny = (code: DenyCode, message: string): Verdict => ({ decision: 'deny', code, message })
