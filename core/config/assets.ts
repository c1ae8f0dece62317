import { type Asset, builtInAssets } from '../domain/asset.ts'
import { familyOf } from '../domain/network.ts'
import type { AssetConfig, Config } from './types.ts'

/**
 * The tokens that links can be paid in: the built-in USDC of each configured network, in the order of `networks`, then
 * the entries of `assets`. An entry with the address of a built-in token changes that one in its place.
 */
export function resolveAssets(config: Pick<Config, 'networks' | 'assets'>): readonly Asset[] {
  const builtIn = Object.keys(config.networks).flatMap((id) =>
    builtInAssets.filter((asset) => asset.network === id),
  )
  const changed = builtIn.map((asset) => {
    const entry = config.assets.find((other) => isSameToken(other, asset))
    return entry === undefined ? asset : mergeAsset(asset, entry)
  })
  const added = config.assets.filter((entry) => builtInTokenOf(entry) === undefined)
  return [...changed, ...added.map((entry) => mergeAsset(undefined, entry))]
}

/** The built-in token that an entry changes; undefined for a token of the operator's own. */
export const builtInTokenOf = (entry: Token): Asset | undefined =>
  builtInAssets.find((asset) => isSameToken(entry, asset))

type Token = Pick<Asset, 'network' | 'address'>

/** EVM addresses are the same in any case (EIP-55 only adds a checksum); base58 is not. */
export const isSameToken = (a: Token, b: Token): boolean =>
  a.network === b.network && normalAddress(a) === normalAddress(b)

const normalAddress = ({ network, address }: Token): string =>
  familyOf(network) === 'eip155' ? address.toLowerCase() : address

function mergeAsset(base: Asset | undefined, entry: AssetConfig): Asset {
  // The rules of the loader made sure that a token of the operator's own names both.
  const { symbol = base?.symbol ?? '', decimals = base?.decimals ?? 0 } = entry
  const common = {
    network: entry.network,
    address: entry.address,
    symbol,
    decimals,
    feeBps: entry.feeBps,
    usdPerUnit: entry.usdPerUnit,
  }
  if (familyOf(entry.network) === 'solana')
    return { ...common, program: entry.program ?? base?.program ?? 'token' }
  const eip712 = entry.eip712 ?? base?.eip712
  return eip712 === undefined ? common : { ...common, eip712 }
}
