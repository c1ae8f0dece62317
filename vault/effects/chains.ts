import { type ChainFamily, familyOf, type NetworkId } from '../../core/domain/network.ts'
import { PinProblem } from './pinProblem.ts'

/** A chain as requests to the vault name it: one of a {@link ChainTable}, such as `base` or `solana-devnet`. */
export type VaultChain = string

/** What is pinned of a chain: nothing here is ever taken from a request or a node. */
export interface ChainFacts {
  readonly name: VaultChain
  readonly family: ChainFamily
  /** CAIP-2 id. */
  readonly network: NetworkId
  readonly title: string
  /** EVM: the number inside every transaction (EIP-155). Solana's transactions do not name their cluster. */
  readonly chainId?: bigint
  /** The coin that fees are paid in. */
  readonly native: { readonly symbol: string; readonly decimals: number }
  /** True where money is for play: such a chain has addresses of its own, because a signature may not name its chain. */
  readonly isTest: boolean
  /** Highest fee of one transaction that is signed at all, in wei or lamports; above it something is wrong. */
  readonly maxFee: bigint
  /**
   * Highest fee that a rule may approve without the owner, unless the rule says otherwise; same unit. A day's fees are so
   * many of these as there are payments in what may be spent a day.
   */
  readonly usualFee: bigint
}

/** One chain that an owner adds to the pinned ones; its number is the one in `network`. */
export type AddedChain = Omit<ChainFacts, 'chainId'>

/** The chains that the vault knows, by name. */
export interface ChainTable {
  readonly all: readonly ChainFacts[]
  /** The chain of a name that was looked up before. @throws {RangeError} for any other */
  of(chain: VaultChain): ChainFacts
  /** The chain that a request names; undefined for anything else. */
  named(name: unknown): ChainFacts | undefined
  /** The chain of a CAIP-2 network. */
  ofNetwork(network: string): ChainFacts | undefined
}

/** What {@link isSymbol} wants. */
export const symbolForm = 'Expected 1 to 16 letters, digits, $ and . of ASCII.'

const milliEther = 10n ** 15n
const ether = { symbol: 'ETH', decimals: 18 }
/** Base charges its data fee in Ethereum's blocks beside the gas. */
const baseFees = { maxFee: 2n * milliEther, usualFee: milliEther / 10n } as const
/** Usual: some signatures and a priority fee. Rent of accounts comes on top, and is asked for. */
const solanaFees = { maxFee: 10_000_000n, usualFee: 200_000n } as const

const builtIn: readonly AddedChain[] = [
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
 * The pinned chains and those that the owner adds. An addition never replaces what is pinned: two names for one network
 * would give one chain two rules, and two networks under one name would let one be taken for the other.
 *
 * @throws {PinProblem} when a name, title or network is there already, or the entry makes no sense
 */
export function createChainTable(added: readonly AddedChain[] = []): ChainTable {
  const byName = new Map<string, ChainFacts>()
  const byNetwork = new Map<string, ChainFacts>()
  for (const chain of [...builtIn, ...added]) {
    const problem = problemOf(chain, [...byName.values()])
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

/** The chains without any additions. */
export const pinnedChains: ChainTable = createChainTable()

function problemOf(chain: AddedChain, known: readonly ChainFacts[]): PinProblem | undefined {
  const { name, title, family, network, native } = chain
  const isSolana = family === 'solana'
  // What is shown is what people decide by, so it is ASCII, and nothing in it moves or hides.
  if (!/^[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?$/.test(name))
    return no('name', 'Expected 1 to 32 lower-case letters, digits and -, beginning with a letter.')
  if (!/^[\x21-\x7e](?:[\x20-\x7e]{0,38}[\x21-\x7e])?$/.test(title))
    return no('title', 'Expected 1 to 40 printable ASCII characters.')
  for (const [field, text] of Object.entries({ name, title })) {
    const double = known.find((one) => [one.name, one.title].map(lookOf).includes(lookOf(text)))
    if (double !== undefined) return no(field, `Expected a ${field} that is not taken for ${double.title}.`)
  }
  if (familyOf(network) !== family)
    return no('network', `Expected ${isSolana ? 'solana:<32 characters>' : 'eip155:<number>'}.`)
  const same = known.find((one) => one.network === network)
  if (same !== undefined)
    return no('network', `Expected another network than ${network}, which is ${same.name}.`)
  if (!isSolana && BigInt(network.slice('eip155:'.length)) > BigInt(Number.MAX_SAFE_INTEGER))
    return no('network', `Expected a chain id of at most ${Number.MAX_SAFE_INTEGER}.`)
  if (!isSymbol(native.symbol)) return no('symbol', symbolForm)
  if (!isDecimals(native.decimals)) return no('decimals', 'Expected 0 to 18 decimals.')
  if (chain.usualFee < 0n || chain.usualFee > chain.maxFee)
    return no('usualFee', 'Expected usualFee to be at most maxFee.')
  if (isSolana && !chain.isTest && known.some((one) => one.family === family && !one.isTest))
    return no(
      'test',
      "Expected true: Solana's transactions name no cluster, so a signature for this one could move money on Solana.",
    )
  return undefined
}

function no(field: string, message: string): PinProblem {
  return new PinProblem(field, message)
}

/** Letters, digits, $ and . in ASCII: what else there is looks like one of these. */
export function isSymbol(symbol: string): boolean {
  return /^[A-Za-z0-9$.]{1,16}$/.test(symbol)
}

export function isDecimals(decimals: number): boolean {
  return Number.isInteger(decimals) && decimals >= 0 && decimals <= 18
}

/** Two texts of ASCII that give the same here may be taken for each other: case, 0 and O, 1, l and I, 5, S and $. */
export function lookOf(text: string): string {
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
