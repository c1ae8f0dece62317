import { parseAmount } from '../../core/domain/money.ts'
import { familyOf } from '../../core/domain/network.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import {
  type AddedAsset,
  type AddedChain,
  type AssetTable,
  createAssetTable,
  createChainTable,
  PinProblem,
} from '../effects/assets.ts'
import type { VaultConfig } from './vaultConfigSchema.ts'

/** One problem with a chain or an asset in the configuration, and its location. */
export interface OwnAssetProblem {
  /** JSON pointer into the configuration. */
  readonly pointer: string
  readonly message: string
}

export interface OwnAssets {
  /** The pinned chains and assets, and the valid ones from the configuration. */
  readonly assets: AssetTable
  readonly problems: readonly OwnAssetProblem[]
}

type ChainConfig = VaultConfig['chains'][number]
type AssetConfig = VaultConfig['assets'][number]

/** Adds the chains and assets of a configuration to the pinned ones. An asset may be on a chain of the same file. */
export function ownAssets({ chains, assets }: Pick<VaultConfig, 'chains' | 'assets'>): OwnAssets {
  const problems: OwnAssetProblem[] = []
  /** Adds the entries one by one, so that each problem gets the location of its entry. */
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
  // A problem of an asset's chain is reported once, at the chain.
  const tellable = assets.map((entry) => (brokenChains.has(entry.chain) ? undefined : entry))
  add('assets', tellable, (entry) => {
    if (entry === undefined) return
    const asset = assetOf(entry)
    assetTable = createAssetTable([...goodAssets, asset], chainTable)
    goodAssets.push(asset)
  })
  return { assets: assetTable, problems }
}

function chainOf({ name, title = name, network, symbol, test, ...more }: ChainConfig): AddedChain {
  // The schema has already checked the form of the network.
  const family = familyOf(network)!
  const { decimals = family === 'solana' ? 9 : 18 } = more
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
