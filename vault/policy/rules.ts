import { parseAmount } from '../../core/domain/money.ts'
import { accountRent } from '../effects/accountRent.ts'
import type { AssetTable, PinnedAsset } from '../effects/assets.ts'
import type { VaultChain } from '../effects/chains.ts'
import type { Policy } from './policy.ts'

/** Most payments a day that fees are meant for on one chain unless the owner says otherwise, however small they are. */
const mostPayments = 10n

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

/**
 * The limits of a chain's fees, rent of accounts included; undefined where the policy names neither an asset nor fees of
 * the chain: then nothing may be paid to its network.
 *
 * What the policy leaves open follows from what may be spent, without knowing any price: a day's budget is so many payments
 * as it takes of the largest ones, `perDay` by `perTransaction` rounded up, and {@link mostPayments} at most for all assets
 * of the chain together. Each has one usual fee, on Solana with the rent of one account for whom it pays. One transaction
 * may take the day's fees, up to the chain's pinned bound.
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

/** How many payments what may be spent a day on a chain is, and the most rent that one of them can take. */
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
  return { count: min(count, mostPayments), rent }
}

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b)
const max = (a: bigint, b: bigint): bigint => (a > b ? a : b)
