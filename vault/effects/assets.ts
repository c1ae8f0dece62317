import { canonicalAddress } from '../../core/domain/address.ts'
import { type ChainFamily, familyOf, type NetworkId } from '../../core/domain/network.ts'

/** An added chain or asset that is invalid or conflicts with the pinned ones. The message states what was expected. */
export class PinProblem extends TypeError {
  override readonly name = 'PinProblem'
  /** The invalid field of the entry, as the vault's configuration names it. */
  readonly field: string

  constructor(field: string, message: string) {
    super(message)
    this.field = field
  }
}

/**
 * Rent of a new token account on Solana, in lamports, by the program that owns its mint. The rent is 6,960 for each byte and
 * for 128 bytes of overhead. Token accounts have 165 bytes. Token-2022 accounts grow with the extensions of the mint, so their
 * value is an upper limit, 400 bytes more than any has today.
 */
export const accountRent = { token: 2_039_280n, 'token-2022': 4_900_000n } as const

/** A chain as requests to the vault name it: an entry of a {@link ChainTable}, such as `base` or `solana-devnet`. */
export type VaultChain = string

/** The pinned facts of a chain. The vault never takes them from a request or a node. */
export interface ChainFacts {
  readonly name: VaultChain
  readonly family: ChainFamily
  /** CAIP-2 id. */
  readonly network: NetworkId
  readonly title: string
  /** EVM: the chain id in every transaction (EIP-155). Absent on Solana, whose transactions do not name their cluster. */
  readonly chainId?: bigint
  /** The coin in which fees are paid. */
  readonly native: { readonly symbol: string; readonly decimals: number }
  /** True for a chain with test money. The vault has other keys for it, because a signature may not name its chain. */
  readonly isTest: boolean
  /** Maximum fee of any transaction that is signed, in wei or lamports. A higher fee can only be a mistake. */
  readonly maxFee: bigint
  /**
   * Default maximum fee that a rule may approve without the owner, in wei or lamports. The daily fee limit is this value times
   * the number of payments that fit into the daily spending limit.
   */
  readonly usualFee: bigint
}

/** One chain that an owner adds to the pinned ones. `network` contains its chain id. */
export type AddedChain = Omit<ChainFacts, 'chainId'>

/** All supported chains, by name. */
export interface ChainTable {
  readonly all: readonly ChainFacts[]
  /** The chain with a validated name. @throws {RangeError} for any other */
  of(chain: VaultChain): ChainFacts
  /** The chain that a request names. Undefined for anything else. */
  named(name: unknown): ChainFacts | undefined
  /** The chain of a CAIP-2 network. */
  ofNetwork(network: string): ChainFacts | undefined
}

/** The form that {@link isSymbol} accepts, for messages. */
const symbolForm = 'Expected 1 to 16 letters, digits, $ and . of ASCII.'

const milliEther = 10n ** 15n
const ether = { symbol: 'ETH', decimals: 18 }
/** On Base, a transaction also pays a data fee for its space in Ethereum's blocks. */
const baseFees = { maxFee: 2n * milliEther, usualFee: milliEther / 10n } as const
/** The usual fee pays for some signatures and a priority fee. It does not include rent of accounts, which needs approval. */
const solanaFees = { maxFee: 10_000_000n, usualFee: 200_000n } as const

const builtInChains: readonly AddedChain[] = [
  {
    ...evm('ethereum', 1, 'Ethereum'),
    isTest: false,
    maxFee: 20n * milliEther,
    usualFee: milliEther,
  },
  { ...evm('base', 8453, 'Base'), isTest: false, ...baseFees },
  { ...evm('base-sepolia', 84532, 'Base Sepolia'), isTest: true, ...baseFees },
  { ...solana('solana', '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp', 'Solana'), isTest: false, ...solanaFees },
  {
    ...solana('solana-devnet', 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1', 'Solana Devnet'),
    isTest: true,
    ...solanaFees,
  },
]

/**
 * The pinned chains and those that the owner adds. An addition never replaces a pinned chain. A network or a name may occur
 * only once, because two names for one network would give it two rules.
 *
 * @throws {PinProblem} when a name, title or network is already used, or the entry is invalid
 */
export function createChainTable(added: readonly AddedChain[] = []): ChainTable {
  const byName = new Map<string, ChainFacts>()
  const byNetwork = new Map<string, ChainFacts>()
  for (const chain of [...builtInChains, ...added]) {
    const problem = chainProblem(chain, [...byName.values()])
    if (problem !== undefined) throw problem
    const isEvm = chain.family === 'eip155'
    const facts: ChainFacts = Object.freeze({
      ...chain,
      native: Object.freeze({ ...chain.native }),
      ...(isEvm && { chainId: BigInt(chain.network.slice('eip155:'.length)) }),
    })
    byName.set(facts.name, facts)
    byNetwork.set(facts.network, facts)
  }
  const all = Object.freeze([...byName.values()])
  return {
    all,
    of(chain) {
      const facts = byName.get(chain)
      if (facts === undefined) throw new RangeError(`Expected one of ${[...byName.keys()].join(', ')}.`)
      return facts
    },
    named: (name) => (typeof name === 'string' ? byName.get(name) : undefined),
    ofNetwork: (network) => byNetwork.get(network),
  }
}

/** Only the pinned chains. */
export const pinnedChains: ChainTable = createChainTable()

function chainProblem(chain: AddedChain, known: readonly ChainFacts[]): PinProblem | undefined {
  const { name, title, family, network, native } = chain
  const isSolana = family === 'solana'
  // Titles are ASCII, because owners decide by what they see, and other characters can move or hide text.
  if (!/^[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?$/.test(name))
    return wrongChain('name', 'Expected 1 to 32 lower-case letters, digits and -, beginning with a letter.')
  if (!/^[\x21-\x7e](?:[\x20-\x7e]{0,38}[\x21-\x7e])?$/.test(title))
    return wrongChain('title', 'Expected 1 to 40 printable ASCII characters.')
  for (const [field, text] of Object.entries({ name, title })) {
    const double = known.find((one) => [one.name, one.title].map(lookOf).includes(lookOf(text)))
    if (double !== undefined)
      return wrongChain(field, `Expected a ${field} that is not taken for ${double.title}.`)
  }
  if (familyOf(network) !== family)
    return wrongChain('network', `Expected ${isSolana ? 'solana:<32 characters>' : 'eip155:<number>'}.`)
  const same = known.find((one) => one.network === network)
  if (same !== undefined)
    return wrongChain('network', `Expected another network than ${network}, which is ${same.name}.`)
  if (!isSolana && BigInt(network.slice('eip155:'.length)) > BigInt(Number.MAX_SAFE_INTEGER))
    return wrongChain('network', `Expected a chain id of at most ${Number.MAX_SAFE_INTEGER}.`)
  if (!isSymbol(native.symbol)) return wrongChain('symbol', symbolForm)
  if (!isDecimals(native.decimals)) return wrongChain('decimals', 'Expected 0 to 18 decimals.')
  if (chain.usualFee < 0n || chain.usualFee > chain.maxFee)
    return wrongChain('usualFee', 'Expected usualFee to be at most maxFee.')
  if (isSolana && !chain.isTest && known.some((one) => one.family === family && !one.isTest))
    return wrongChain(
      'test',
      "Expected true, because Solana's transactions name no cluster, and a signature for this cluster could move money on Solana.",
    )
  return undefined
}

function wrongChain(field: string, message: string): PinProblem {
  return new PinProblem(field, message)
}

/** Whether a symbol has only letters, digits, $ and . of ASCII. Other characters can look like these. */
function isSymbol(symbol: string): boolean {
  return /^[A-Za-z0-9$.]{1,16}$/.test(symbol)
}

function isDecimals(decimals: number): boolean {
  return Number.isInteger(decimals) && decimals >= 0 && decimals <= 18
}

/**
 * Two ASCII texts with the same result look alike. It ignores case and the differences of 0 and O, of 1, l and I, and of 5, S
 * and $.
 */
function lookOf(text: string): string {
  return text
    .toLowerCase()
    .replace(/[\s.-]+/g, '')
    .replace(/0/g, 'o')
    .replace(/[1i|]/g, 'l')
    .replace(/[5$]/g, 's')
}

function evm(name: string, chainId: number, title: string) {
  const network: NetworkId = `eip155:${chainId}`
  return { name, family: 'eip155', network, title, native: ether } as const
}

function solana(name: string, genesis: string, title: string) {
  const network: NetworkId = `solana:${genesis}`
  return { name, family: 'solana', network, title, native: { symbol: 'SOL', decimals: 9 } } as const
}

/**
 * The asset that is moved. `id` identifies it in budgets and comparisons, as CAIP-19 does: `eip155:8453/erc20:0x…` in lower
 * case, `eip155:8453/slip44:60`, `solana:…/token:<mint>`. A token that is not pinned has neither symbol nor decimals, because a
 * contract can claim any name.
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

/** A token whose address, symbol and decimals the vault pins. */
export interface PinnedAsset extends AssetRef {
  readonly symbol: string
  readonly decimals: number
  readonly isPinned: true
  /** EVM: the domain that the token's typed data must have (EIP-712). */
  readonly eip712?: { readonly name: string; readonly version: string }
  /** Solana: the program that owns the mint. */
  readonly program?: 'token' | 'token-2022'
}

/** The assets that claims can name and rules can approve, with their chains. */
export interface AssetTable {
  readonly chains: ChainTable
  /** The native asset of a chain. */
  native(chain: VaultChain): PinnedAsset
  /** By the token's address; EVM addresses in any case. */
  byAddress(chain: VaultChain, address: string): PinnedAsset | undefined
  /** By the symbol in a claim, with exact case. */
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
 * The pinned assets and those that the owner adds. An addition never replaces a pinned asset. A symbol may occur only once per
 * chain, and look-alike symbols are refused, because they could be mistaken for the pinned token.
 *
 * @throws {PinProblem} when a symbol or an address is already used, or the entry is invalid
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

/** Only the pinned assets. */
export const pinnedAssets: AssetTable = createAssetTable()

/** A token that is not pinned. @param address in its canonical form */
export const unknownAsset = (chain: ChainFacts, address: string): AssetRef => ({
  id: assetId(chain, address),
  chain: chain.name,
  address,
  symbol: null,
  decimals: null,
  isPinned: false,
})

/**
 * Whether an amount may be the number of an NFT. ERC-20 and ERC-721 share their calls, so only a pinned EVM contract is
 * certain.
 */
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
    return no(
      'address',
      `Expected another address, because this address is already ${same.symbol} on ${facts.title}.`,
    )
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

/** EVM addresses are case-insensitive, base58 addresses are not. */
function keyOf(address: string): string {
  return address.startsWith('0x') ? address.toLowerCase() : address
}
