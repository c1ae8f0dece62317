import { type Asset, type AssetPreset, assetPresets, builtInAssets } from '../domain/asset.ts'
import { familyOf } from '../domain/network.ts'
import type { AssetConfig, Config } from './schema.ts'

/**
 * The tokens in which links can be paid. First comes the built-in USDC of each configured network, in the order of `networks`, then
 * the entries of `assets`. An entry with the address of a built-in token replaces that token at its position.
 */
export function resolveAssets(config: Pick<Config, 'networks' | 'assets'>): readonly Asset[] {
  const builtIn = Object.keys(config.networks).flatMap((id) =>
    builtInAssets.filter((asset) => asset.network === id),
  )
  const changed = builtIn.map((asset) => {
    const entry = config.assets.find((other) => isSameToken(other, asset))
    return entry === undefined ? asset : mergeAsset(entry)
  })
  const added = config.assets.filter((entry) => builtInTokenOf(entry) === undefined)
  return [...changed, ...added.map(mergeAsset)]
}

/** The built-in token that an entry changes. Undefined if the token is the operator's own. */
export const builtInTokenOf = (entry: Token): Asset | undefined =>
  builtInAssets.find((asset) => isSameToken(entry, asset))

type Token = Pick<Asset, 'network' | 'address'>

/** The token that Tollgate knows, built in or not. Its values apply where an entry states none. */
export const knownTokenOf = (entry: Token): Asset | AssetPreset | undefined =>
  builtInTokenOf(entry) ?? assetPresets.find((asset) => isSameToken(entry, asset))

/** EVM addresses are equal in any case, because EIP-55 only adds a checksum. Base58 is case-sensitive. */
export const isSameToken = (a: Token, b: Token): boolean =>
  a.network === b.network && normalAddress(a) === normalAddress(b)

const normalAddress = ({ network, address }: Token): string =>
  familyOf(network) === 'eip155' ? address.toLowerCase() : address

function mergeAsset(entry: AssetConfig): Asset {
  const base = knownTokenOf(entry)
  // If the token is the operator's own, the loader's rules require both.
  const { symbol = base?.symbol ?? '', decimals = base?.decimals ?? 0 } = entry
  const common = {
    network: entry.network,
    address: entry.address,
    symbol,
    decimals,
    feeBps: entry.feeBps,
    usdPerUnit: entry.usdPerUnit ?? '1',
  }
  if (familyOf(entry.network) === 'solana')
    return { ...common, program: entry.program ?? base?.program ?? 'token' }
  const { eip712 = base?.eip712, hasPermit = base?.hasPermit } = entry
  return {
    ...common,
    ...(eip712 !== undefined && { eip712 }),
    ...(hasPermit !== undefined && { hasPermit }),
    ...(entry.transferMethod === 'permit2' && { transferMethod: 'permit2' }),
  }
}
