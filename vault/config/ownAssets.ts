import { parseAmount } from '../../core/domain/money.ts'
import { familyOf } from '../../core/domain/network.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import { type AddedAsset, type AssetTable, createAssetTable } from '../effects/assets.ts'
import { type AddedChain, createChainTable } from '../effects/chains.ts'
import { PinProblem } from '../effects/pinProblem.ts'
import type { VaultConfig } from './vaultConfigSchema.ts'

/** One thing that is wrong with a chain or an asset of the configuration, and where. */
export interface OwnAssetProblem {
  /** JSON pointer into the configuration. */
  readonly pointer: string
  readonly message: string
}

export interface OwnAssets {
  /** The pinned chains and assets, and those of the configuration that nothing is wrong with. */
  readonly assets: AssetTable
  readonly problems: readonly OwnAssetProblem[]
}

type ChainConfig = VaultConfig['chains'][number]
type AssetConfig = VaultConfig['assets'][number]

/** Puts the chains and assets of a configuration beside the pinned ones. An asset may be on a chain of the same file. */
export function ownAssets({ chains, assets }: Pick<VaultConfig, 'chains' | 'assets'>): OwnAssets {
  const problems: OwnAssetProblem[] = []
  /** Adds one entry after the other, so that each problem is found and has its place. */
  const add = <T>(list: string, entries: readonly T[], take: (entry: T) => void): void => {
    for (const [i, entry] of entries.entries()) {
      try {
        take(entry)
      } catch (error) {
        if (!(error instanceof PinProblem)) throw error
        problems.push({ pointer: `/${list}/${i}/${error.field}`, message: error.message })
      }
    }
  }
  const goodChains: AddedChain[] = []
  let chainTable = createChainTable()
  add('chains', chains, (entry) => {
    const chain = chainOf(entry)
    chainTable = createChainTable([...goodChains, chain])
    goodChains.push(chain)
  })
  const goodAssets: AddedAsset[] = []
  let assetTable = createAssetTable([], chainTable)
  const brokenChains = new Set(
    chains.map(({ name }) => name).filter((name) => chainTable.named(name) === undefined),
  )
  // What is wrong with the chain of an asset is told once, at the chain.
  const tellable = assets.map((entry) => (brokenChains.has(entry.chain) ? undefined : entry))
  add('assets', tellable, (entry) => {
    if (entry === undefined) return
    const asset = assetOf(entry)
    assetTable = createAssetTable([...goodAssets, asset], chainTable)
    goodAssets.push(asset)
  })
  return { assets: assetTable, problems }
}

function chainOf({ name, title = name, network, symbol, test, rpc, ...more }: ChainConfig): AddedChain {
  // The schema has checked its form.
  const family = familyOf(network)!
  const { decimals = family === 'solana' ? 9 : 18 } = more
  if (rpc !== undefined && family !== 'solana')
    throw new PinProblem('rpc', 'Expected no rpc: payments on an EVM chain ask no node.')
  const read = (field: 'usualFee' | 'maxFee'): bigint => {
    try {
      return parseAmount(more[field], decimals)
    } catch (error) {
      if (isTollgateError(error)) throw new PinProblem(field, error.message)
      throw error
    }
  }
  return {
    name,
    title,
    family,
    network,
    native: { symbol, decimals },
    isTest: test,
    usualFee: read('usualFee'),
    maxFee: read('maxFee'),
  }
}

const assetOf = ({ chain, symbol, address, decimals, program, eip712 }: AssetConfig): AddedAsset => ({
  chain,
  symbol,
  address,
  decimals,
  ...(program !== undefined && { program }),
  ...(eip712 !== undefined && { eip712 }),
})
