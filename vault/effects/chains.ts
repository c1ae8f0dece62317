import type { ChainFamily, NetworkId } from '../../core/domain/network.ts'

/** A chain as requests to the vault name it. */
export type VaultChain = 'ethereum' | 'base' | 'base-sepolia' | 'solana' | 'solana-devnet'

/** What is pinned of a chain: nothing here is ever taken from a request or a node. */
export interface ChainFacts {
  readonly name: VaultChain
  readonly family: ChainFamily
  /** CAIP-2 id. */
  readonly network: NetworkId
  readonly title: string
  /** EVM: the number inside every transaction (EIP-155). Solana's transactions do not name their cluster. */
  readonly chainId?: bigint
  /** Highest fee of one transaction that is signed at all, in wei or lamports; above it something is wrong. */
  readonly maxFee: bigint
  /** Highest fee that a rule may approve without the owner, unless the rule says otherwise; same unit. */
  readonly usualFee: bigint
}

const milliEther = 10n ** 15n
/** Rent of one token account and a priority fee: what a first payment to somebody costs. */
const solanaFees = { maxFee: 10_000_000n, usualFee: 2_200_000n } as const

/** The chains that the vault signs for, by name. Base charges its data fee in Ethereum's blocks beside the gas. */
export const chainFacts: Readonly<Record<VaultChain, ChainFacts>> = {
  ethereum: {
    ...evm('ethereum', 1n, 'Ethereum'),
    maxFee: 20n * milliEther,
    usualFee: 2n * milliEther,
  },
  base: { ...evm('base', 8453n, 'Base'), maxFee: 2n * milliEther, usualFee: milliEther / 10n },
  'base-sepolia': {
    ...evm('base-sepolia', 84532n, 'Base Sepolia'),
    maxFee: 2n * milliEther,
    usualFee: milliEther / 10n,
  },
  solana: {
    name: 'solana',
    family: 'solana',
    network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
    title: 'Solana',
    ...solanaFees,
  },
  'solana-devnet': {
    name: 'solana-devnet',
    family: 'solana',
    network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
    title: 'Solana Devnet',
    ...solanaFees,
  },
}

/** The facts of a chain that a request names; undefined for any other text, inherited property names included. */
export function chainNamed(name: unknown): ChainFacts | undefined {
  return typeof name === 'string' && Object.hasOwn(chainFacts, name)
    ? chainFacts[name as VaultChain]
    : undefined
}

/** The facts of a CAIP-2 network; undefined when the vault does not sign for it. */
export const chainOfNetwork = (network: string): ChainFacts | undefined =>
  Object.values(chainFacts).find((facts) => facts.network === network)

function evm(name: VaultChain, chainId: bigint, title: string) {
  return { name, family: 'eip155', network: `eip155:${chainId}` as NetworkId, title, chainId } as const
}
