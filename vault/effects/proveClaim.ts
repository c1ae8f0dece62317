import { canonicalAddress } from '../../core/domain/address.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { type AssetRef, type AssetTable, type PinnedAsset, pinnedAssets } from './assets.ts'
import { claimedAmount } from './claimedAmount.ts'
import type { Decoded } from './decoded.ts'
import type { Effect } from './effect.ts'
import { goesTo } from './goesTo.ts'
import { showText } from './plainWords.ts'
import { spendOf } from './spendOf.ts'

/** What an agent says that its request does; the fields of the document's signing request. */
export interface Claim {
  readonly chain: unknown
  /** In whole units of the currency, a JSON number or a string. */
  readonly amount: unknown
  /** Symbol of a pinned asset; missing means the chain's native one. */
  readonly currency?: unknown
  /** Where it should go; missing means that the agent does not say. */
  readonly recipient?: unknown
}

export interface ProveOptions {
  readonly assets?: AssetTable
  /** Highest fee in atomic native units, rent of new accounts included. Default: what is pinned for the chain. */
  readonly maxFee?: bigint
}

export type ClaimCode = 'TX_MISMATCH' | 'TX_OPAQUE' | 'FEE_EXCESSIVE' | 'CHAIN_MISMATCH' | 'VALIDATION_ERROR'

export type ClaimProof =
  | { readonly ok: true; readonly asset: PinnedAsset; readonly amount: bigint }
  | {
      readonly ok: false
      readonly code: ClaimCode
      readonly message: string
      /**
       * True only for `TX_OPAQUE`: what is understood does not contradict the claim, the rest is not understood. The owner
       * may be asked, with the request shown as opaque. Everything else is refused.
       */
      readonly mayBeShown: boolean
    }

/**
 * Proves that a request does exactly what its agent claims: one asset, one amount to the last atomic unit, from our
 * account, to the recipient where one is named, on the chain named, for a fee that is not absurd. Integers are compared,
 * never text or floats.
 *
 * Order matters: what is understood and contradicts the claim is a mismatch even when something else is opaque, so that
 * an unknown instruction can not turn a refusal into a question.
 *
 * @example
 * const proof = proveClaim({ chain: 'base', amount: 1, currency: 'USDC' }, decoded)
 * if (!proof.ok && !proof.mayBeShown) refuse(proof.code, proof.message)
 */
export function proveClaim(claim: Claim, decoded: Decoded, options: ProveOptions = {}): ClaimProof {
  const { assets = pinnedAssets } = options
  const chain = assets.chains.named(claim.chain)
  if (chain === undefined || chain.name !== decoded.chain) {
    return no(
      'CHAIN_MISMATCH',
      `Expected a request for ${decoded.chain}, the claim names ${shown(claim.chain)}.`,
    )
  }
  const asset = claimedAsset(claim.currency, decoded, assets)
  if (asset === undefined) {
    return no(
      'VALIDATION_ERROR',
      `Expected currency to be an asset that is pinned on ${chain.name}, got ${shown(claim.currency)}.`,
    )
  }
  const claimed = claimedAmount(claim.amount, asset.decimals)
  if (!claimed.ok) return no('VALIDATION_ERROR', claimed.message)

  const problem = contradiction(asset, claimed.atomic, claim.recipient, decoded, assets)
  if (problem !== undefined) return no('TX_MISMATCH', problem)
  const { fee } = spendOf(decoded)
  const maxFee = options.maxFee ?? chain.maxFee
  if (fee > maxFee) {
    const words = (amount: bigint) => amountInWords(assets.native(decoded.chain), amount)
    return no(
      'FEE_EXCESSIVE',
      `Expected a fee of at most ${words(maxFee)}, the request allows ${words(fee)}.`,
    )
  }
  if (decoded.isOpaque) {
    return no('TX_OPAQUE', 'A part of the request could not be understood, so the claim is not proved.', true)
  }
  // Last, because an opaque request may move the claimed amount by the part that is not understood.
  const sum = spendOf(decoded).moved.get(asset.id)?.amount ?? 0n
  if (sum !== claimed.atomic) {
    const [is, said] = [sum, claimed.atomic].map((amount) => amountInWords(asset, amount))
    return no('TX_MISMATCH', `Expected the request to move ${said} as claimed, it moves ${is}.`)
  }
  return { ok: true, asset, amount: claimed.atomic }
}

function claimedAsset(currency: unknown, { chain }: Decoded, assets: AssetTable): PinnedAsset | undefined {
  if (currency === undefined) return assets.native(chain)
  return typeof currency === 'string' ? assets.bySymbol(chain, currency) : undefined
}

/** What among the understood effects can not be part of the claim, in words; undefined when nothing is. */
function contradiction(
  asset: PinnedAsset,
  claimed: bigint,
  recipient: unknown,
  decoded: Decoded,
  assets: AssetTable,
): string | undefined {
  const payee =
    recipient === undefined ? undefined : canonicalAddress(assets.chains.of(decoded.chain).family, recipient)
  if (recipient !== undefined && payee === undefined)
    return 'The claimed recipient is no address of the chain.'
  let sum = 0n
  for (const effect of decoded.effects) {
    if (effect.kind === 'note' || effect.kind === 'opaque') continue
    if (effect.kind === 'account') {
      if (payee !== undefined && effect.owner !== payee)
        return 'The request makes an account for somebody else than the claimed recipient.'
      if (effect.asset.id !== asset.id)
        return 'The request makes an account for another asset than the claimed one.'
      continue
    }
    const problem = objectTo(effect, asset, decoded)
    if (problem !== undefined) return problem
    if (payee !== undefined && !isFor(effect, payee, assets)) {
      return `The request pays somebody else than the claimed recipient.`
    }
    if (effect.asset.id === asset.id) sum += effect.amount
  }
  if (sum > claimed) {
    const [is, said] = [sum, claimed].map((amount) => amountInWords(asset, amount))
    return `Expected the request to move ${said} as claimed, it moves ${is}.`
  }
}

type MoneyEffect = Extract<Effect, { kind: 'transfer' | 'allowance' }>

function objectTo(effect: MoneyEffect, asset: PinnedAsset, decoded: Decoded): string | undefined {
  const payer = effect.kind === 'transfer' ? effect.from : effect.owner
  if (payer !== decoded.from) return 'The request moves money of another account than the one that signs.'
  // An unknown asset comes with isOpaque, and the owner sees it.
  if (!effect.asset.isPinned && decoded.isOpaque) return undefined
  if (effect.asset.id !== asset.id) {
    return `Expected the request to move ${asset.symbol} only, it also moves ${nameOf(effect.asset)}.`
  }
}

const isFor = (effect: MoneyEffect, payee: string, assets: AssetTable): boolean =>
  effect.kind === 'transfer' ? goesTo(effect, payee, assets) : effect.spender === payee

const nameOf = ({ symbol, address }: AssetRef): string => symbol ?? `a token that is not known (${address})`

const amountInWords = ({ decimals, symbol }: PinnedAsset, amount: bigint): string =>
  `${formatAmount(amount, decimals)} ${symbol}`

const shown = (value: unknown): string =>
  typeof value === 'string' ? showText(value, 40) : value === undefined ? 'nothing' : `a ${typeof value}`

const no = (code: ClaimCode, message: string, mayBeShown = false): ClaimProof => ({
  ok: false,
  code,
  message,
  mayBeShown,
})
