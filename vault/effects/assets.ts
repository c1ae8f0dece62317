import { canonicalAddress } from '../../core/domain/address.ts'
import {
  type ChainFacts,
  type ChainTable,
  isDecimals,
  isSymbol,
  lookOf,
  pinnedChains,
  symbolForm,
  type VaultChain,
} from './chains.ts'
import { PinProblem } from './pinProblem.ts'

/**
 * What is moved. `id` names it for budgets and comparisons, as CAIP-19 does: `eip155:8453/erc20:0x…` in lower case,
 * `eip155:8453/slip44:60`, `solana:…/token:<mint>`.
 * A token that is not pinned has neither symbol nor decimals: whatever it calls itself is its own word.
 */
export interface AssetRef {
  readonly id: string
  readonly chain: VaultChain
  /** `native`, or the token's contract or mint in its canonical spelling. */
  readonly address: string
  readonly symbol: string | null
  readonly decimals: number | null
  readonly isPinned: boolean
}

/** A token whose address, symbol and decimals the vault vouches for. */
export interface PinnedAsset extends AssetRef {
  readonly symbol: string
  readonly decimals: number
  readonly isPinned: true
  /** EVM: the domain that the token's typed data must have (EIP-712). */
  readonly eip712?: { readonly name: string; readonly version: string }
  /** Solana: the program that owns the mint. */
  readonly program?: 'token' | 'token-2022'
}

/** The assets that claims can name and that rules can approve, and the chains that they are on. */
export interface AssetTable {
  readonly chains: ChainTable
  /** The native asset of a chain. */
  native(chain: VaultChain): PinnedAsset
  /** By the token's address; EVM in any case. */
  byAddress(chain: VaultChain, address: string): PinnedAsset | undefined
  /** By the symbol that a claim names, exactly as written here. */
  bySymbol(chain: VaultChain, symbol: string): PinnedAsset | undefined
  tokensOf(chain: VaultChain): readonly PinnedAsset[]
}

/** One token that an owner adds to the pinned ones. */
export type AddedAsset = Pick<PinnedAsset, 'chain' | 'address' | 'symbol' | 'decimals' | 'eip712' | 'program'>

const token = (
  chain: VaultChain,
  symbol: string,
  address: string,
  more: Pick<PinnedAsset, 'eip712' | 'program'> = { program: 'token' },
): AddedAsset => ({ chain, symbol, address, decimals: 6, ...more })

const usdCoin = { eip712: { name: 'USD Coin', version: '2' } }

const builtIn: readonly AddedAsset[] = [
  token('ethereum', 'USDC', '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48', usdCoin),
  token('ethereum', 'USDT', '0xdAC17F958D2ee523a2206206994597C13D831ec7', {}),
  token('base', 'USDC', '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', usdCoin),
  token('base', 'USDT', '0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2', {}),
  token('base-sepolia', 'USDC', '0x036CbD53842c5426634e7929541eC2318f3dCF7e', {
    eip712: { name: 'USDC', version: '2' },
  }),
  token('solana', 'USDC', 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v'),
  token('solana', 'USDT', 'Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB'),
  token('solana-devnet', 'USDC', '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU'),
]

/**
 * The pinned assets and those that the owner adds. An addition never replaces what is pinned: a second address for
 * `USDC` on a chain would let one token be taken for another, and so would a look-alike.
 *
 * @throws {PinProblem} when a symbol or an address is there already, or the entry makes no sense
 */
export function createAssetTable(
  added: readonly AddedAsset[] = [],
  chains: ChainTable = pinnedChains,
): AssetTable {
  const natives = new Map(chains.all.map((facts) => [facts.name, nativeOf(facts)]))
  const native = (chain: VaultChain): PinnedAsset => natives.get(chains.of(chain).name)!
  const tokens: PinnedAsset[] = []
  for (const asset of [...builtIn, ...added]) {
    const problem = problemOf(asset, chains, tokens)
    if (problem !== undefined) throw problem
    tokens.push({ ...asset, id: assetId(chains.of(asset.chain), asset.address), isPinned: true })
  }
  return {
    chains,
    native,
    byAddress: (chain, address) =>
      tokens.find((t) => t.chain === chain && keyOf(t.address) === keyOf(address)),
    bySymbol: (chain, symbol) =>
      symbol === native(chain).symbol
        ? native(chain)
        : tokens.find((t) => t.chain === chain && t.symbol === symbol),
    tokensOf: (chain) => tokens.filter((t) => t.chain === chain),
  }
}

/** The assets without any additions. */
export const pinnedAssets: AssetTable = createAssetTable()

/** A token that is not pinned. @param address in its canonical spelling */
export const unknownAsset = (chain: ChainFacts, address: string): AssetRef => ({
  id: assetId(chain, address),
  chain: chain.name,
  address,
  symbol: null,
  decimals: null,
  isPinned: false,
})

/** ERC-20 and ERC-721 share their calls: of an EVM contract that is not pinned, an amount may be the number of an NFT. */
export const mayBeNft = ({ isPinned, address }: AssetRef): boolean => !isPinned && address.startsWith('0x')

function problemOf(
  { chain, symbol, address, decimals, program, eip712 }: AddedAsset,
  chains: ChainTable,
  tokens: readonly PinnedAsset[],
): PinProblem | undefined {
  const no = (field: string, message: string) => new PinProblem(field, message)
  const facts = chains.named(chain)
  if (facts === undefined)
    return no('chain', `Expected one of ${chains.all.map(({ name }) => name).join(', ')}.`)
  if (!isSymbol(symbol)) return no('symbol', symbolForm)
  if (!isDecimals(decimals)) return no('decimals', 'Expected 0 to 18 decimals.')
  const isSolana = facts.family === 'solana'
  if (canonicalAddress(facts.family, address) !== address)
    return no(
      'address',
      isSolana
        ? 'Expected the mint, 32 bytes in base58.'
        : 'Expected the contract, 0x and 40 digits with their checksum in upper and lower case (EIP-55).',
    )
  if (isSolana && eip712 !== undefined) return no('eip712', `Expected no eip712 on ${facts.title}.`)
  if (!isSolana && program !== undefined) return no('program', `Expected no program on ${facts.title}.`)
  const here = tokens.filter((token) => token.chain === chain)
  const same = here.find((token) => token.address === address)
  if (same !== undefined)
    return no('address', `Expected another address: this one is ${same.symbol} on ${facts.title} already.`)
  const symbols = [facts.native.symbol, ...here.map((token) => token.symbol)]
  const double = symbols.find((one) => lookOf(one) === lookOf(symbol))
  if (double !== undefined)
    return no('symbol', `Expected a symbol that is not taken for ${double} on ${facts.title}.`)
  return undefined
}

function nativeOf(facts: ChainFacts): PinnedAsset {
  const { name: chain, native } = facts
  return { id: assetId(facts, 'native'), chain, address: 'native', ...native, isPinned: true }
}

/** The CAIP-19 id; SLIP-44 numbers the native coins. @param address `native`, or the token's */
function assetId({ network, family }: ChainFacts, address: string): string {
  if (address === 'native') return `${network}/slip44:${family === 'solana' ? 501 : 60}`
  return family === 'solana' ? `${network}/token:${address}` : `${network}/erc20:${address.toLowerCase()}`
}

/** EVM addresses are the same in any case, base58 is not. */
function keyOf(address: string): string {
  return address.startsWith('0x') ? address.toLowerCase() : address
}
