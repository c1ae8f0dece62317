import { parseAmount } from '../../core/domain/money.ts'
import type { AssetTable, PinnedAsset } from '../effects/assets.ts'
import type { VaultChain } from '../effects/chains.ts'
import type { FeeRule, Policy } from './policy.ts'

/** Days' worth of single fees that may be paid in a day unless the owner says otherwise. */
const feesPerDay = 10n

/** The limits of one asset or of a chain's fees, in atomic units. */
export interface Limits {
  readonly asset: PinnedAsset
  readonly perTransaction: bigint
  readonly perDay: bigint
  readonly autoApproveUpTo: bigint
}

/**
 * The limits of an asset by its id; undefined when the policy does not name it.
 *
 * @throws {TypeError} when the policy names an asset that is not pinned: it was not checked when it was stored
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

/** The limits of a chain's fees, with the chain's own bounds where the policy says nothing. */
export function feeLimitsOf(policy: Policy, chain: VaultChain, assets: AssetTable): Limits {
  const rule: Partial<FeeRule> = policy.fees?.find((fee) => fee.chain === chain) ?? {}
  const asset = assets.native(chain)
  const { maxFee, usualFee } = assets.chains.of(chain)
  const read = (text: string | undefined, otherwise: bigint): bigint =>
    text === undefined ? otherwise : parseAmount(text, asset.decimals)
  const perTransaction = read(rule.perTransaction, maxFee)
  return {
    asset,
    perTransaction,
    perDay: read(rule.perDay, perTransaction * feesPerDay),
    autoApproveUpTo: read(rule.autoApproveUpTo, usualFee),
  }
}
