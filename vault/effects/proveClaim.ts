import { canonicalAddress } from '../../core/domain/address.ts'
import { formatAmount, parseAmount } from '../../core/domain/money.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import { type AssetRef, type AssetTable, type PinnedAsset, pinnedAssets } from './assets.ts'
import { type Decoded, type Effect, goesTo, spendOf } from './effect.ts'
import { showText } from './plainWords.ts'

/** An agent's claim about its request. The fields are those of the interface document's signing request. */
export interface Claim {
  readonly chain: unknown
  /** In whole units of the currency, a JSON number or a string. */
  readonly amount: unknown
  /** Symbol of a pinned asset. Absent means the chain's native asset. */
  readonly currency?: unknown
  /** The claimed recipient. Absent if the agent claims none. */
  readonly recipient?: unknown
}

export interface ProveOptions {
  readonly assets?: AssetTable
  /** Maximum fee in atomic native units, including rent of new accounts. Default: the chain's pinned maximum. */
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
       * True only for `TX_OPAQUE`. The decoded part does not contradict the claim, but a part could not be decoded. The vault
       * may then ask the owner, who sees the request as opaque. Everything else is refused.
       */
      readonly mayBeShown: boolean
    }

/**
 * Proves that a request does exactly what its agent claims: one asset, one amount to the last atomic unit, from the vault's
 * account, to the recipient where one is claimed, on the claimed chain, for a fee within the maximum. Integers are compared,
 * never text or floats.
 *
 * A contradiction is checked before opacity. Otherwise an agent could add an unknown instruction to turn a refusal into a
 * request for approval.
 *
 * @example const proof = proveClaim({ chain: 'base', amount: 1, currency: 'USDC' }, decoded) if (!proof.ok &&
 *   !proof.mayBeShown) refuse(proof.code, proof.message)
 */
export function proveClaim(claim: Claim, decoded: Decoded, options: ProveOptions = {}): ClaimProof {
  const { assets = pinnedAssets } = options
  const chain = assets.chains.named(claim.chain)
  if (chain === undefined || chain.name !== decoded.chain) {
    return no(
      'CHAIN_MISMATCH',
      `Expected the claim to name ${decoded.chain}, the chain of the request, got ${shown(claim.chain)}.`,
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
      `Expected a fee of at most ${words(maxFee)}, but the request allows ${words(fee)}.`,
    )
  }
  if (decoded.isOpaque) {
    return no(
      'TX_OPAQUE',
      'A part of the request could not be decoded, so the claim cannot be verified.',
      true,
    )
  }
  // The sum is checked last, because the opaque part of a request may move the claimed amount.
  const sum = spendOf(decoded).moved.get(asset.id)?.amount ?? 0n
  if (sum !== claimed.atomic) {
    const [is, claimedText] = [sum, claimed.atomic].map((amount) => amountInWords(asset, amount))
    return no('TX_MISMATCH', `Expected the request to move ${claimedText} as claimed, but it moves ${is}.`)
  }
  return { ok: true, asset, amount: claimed.atomic }
}

function claimedAsset(currency: unknown, { chain }: Decoded, assets: AssetTable): PinnedAsset | undefined {
  if (currency === undefined) return assets.native(chain)
  return typeof currency === 'string' ? assets.bySymbol(chain, currency) : undefined
}

/** Why a decoded effect contradicts the claim. Undefined if none does. */
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
    return 'Expected the claimed recipient to be an address of the chain.'
  let sum = 0n
  for (const effect of decoded.effects) {
    if (effect.kind === 'note' || effect.kind === 'opaque') continue
    if (effect.kind === 'account') {
      if (payee !== undefined && effect.owner !== payee)
        return 'The request creates an account for another owner than the claimed recipient.'
      if (effect.asset.id !== asset.id)
        return 'The request creates an account for another asset than the claimed one.'
      continue
    }
    const problem = objectTo(effect, asset, decoded)
    if (problem !== undefined) return problem
    if (payee !== undefined && !isFor(effect, payee, assets)) {
      return `The request pays another recipient than the claimed one.`
    }
    if (effect.asset.id === asset.id) sum += effect.amount
  }
  if (sum > claimed) {
    const [is, claimedText] = [sum, claimed].map((amount) => amountInWords(asset, amount))
    return `Expected the request to move ${claimedText} as claimed, but it moves ${is}.`
  }
}

type MoneyEffect = Extract<Effect, { kind: 'transfer' | 'allowance' }>

function objectTo(effect: MoneyEffect, asset: PinnedAsset, decoded: Decoded): string | undefined {
  const payer = effect.kind === 'transfer' ? effect.from : effect.owner
  if (payer !== decoded.from) return 'The request moves money of an account other than the one that signs.'
  // The owner sees an unknown asset, because it makes the request opaque.
  if (!effect.asset.isPinned && decoded.isOpaque) return undefined
  if (effect.asset.id !== asset.id) {
    return `Expected the request to move only ${asset.symbol}, but it also moves ${nameOf(effect.asset)}.`
  }
}

const isFor = (effect: MoneyEffect, payee: string, assets: AssetTable): boolean =>
  effect.kind === 'transfer' ? goesTo(effect, payee, assets) : effect.spender === payee

const nameOf = ({ symbol, address }: AssetRef): string => symbol ?? `an unknown token (${address})`

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

/** Number of digits up to which every decimal number survives JSON parsing exactly (IEEE 754, binary64). */
const EXACT_DIGITS = 15

type ClaimedAmount =
  | { readonly ok: true; readonly atomic: bigint }
  | { readonly ok: false; readonly message: string }

/**
 * Parses the `amount` of a request, a JSON number or a string, exactly into atomic units. It must be finite, with no sign, no
 * more decimals than the asset has, and no exponent in a string. An amount of more than 15 digits has to be a string, because
 * JSON parsing may have changed the number.
 */
export function claimedAmount(amount: unknown, decimals: number): ClaimedAmount {
  if (typeof amount !== 'number' && typeof amount !== 'string') {
    return notExact('Expected amount to be a number or a string of decimal digits.')
  }
  if (typeof amount === 'number') {
    if (!Number.isFinite(amount) || amount < 0 || Object.is(amount, -0)) {
      return notExact('Expected amount to be zero or more and finite.')
    }
    if (
      decimalText(amount)
        .replace('.', '')
        .replace(/^0+|0+$/g, '').length > EXACT_DIGITS
    ) {
      return notExact(
        `Expected at most ${EXACT_DIGITS} digits in a number, got more. Send \`amount\` as a string.`,
      )
    }
  }
  try {
    return { ok: true, atomic: parseAmount(decimalText(amount), decimals) }
  } catch (error) {
    if (!isTollgateError(error)) throw error
    return notExact(`In amount: ${error.message}`)
  }
}

/**
 * An amount of a request in decimal digits. JavaScript writes numbers below a millionth with an exponent: 1e-7 is 0.0000001.
 * Numbers from 1e21 on keep their exponent and are refused, because no asset has that much.
 */
function decimalText(amount: number | string): string {
  const small = typeof amount === 'number' ? /^(\d)(?:\.(\d+))?e-(\d+)$/.exec(String(amount)) : null
  if (small === null) return String(amount)
  const [, first = '', rest = '', exponent] = small
  return `0.${'0'.repeat(Number(exponent) - 1)}${first}${rest}`
}

/** The amount in its canonical form, without trailing zeros, so that two requests for the same amount match. */
export const plainAmount = (amount: number | string): string =>
  decimalText(amount)
    .replace(/(\.\d*?)0+$/, '$1')
    .replace(/\.$/, '')

const notExact = (message: string): ClaimedAmount => ({ ok: false, message })
