/** A CAIP-2 chain id, such as `eip155:8453` or `solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp`. */
export type NetworkId = `eip155:${string}` | `solana:${string}`
export type ChainFamily = 'eip155' | 'solana'
/** The names of the chain families in the marketplace API. */
export type ChainName = 'base' | 'solana'

/** What Tollgate knows about a network without configuration. */
export interface NetworkFacts {
  readonly id: NetworkId
  /** Short name on the command line, such as `base`. It is also the network's name in x402 version 1, unless `isInV1` is false. */
  readonly name: string
  readonly isInV1?: false
  readonly title: string
  readonly explorerTx: string
  /** Absent if the standard fees apply (EVM only). */
  readonly fees?: FeeDefaults
}

/** What the gateway pays for gas on an EVM network if the operator sets nothing. */
export interface FeeDefaults {
  /** Highest price of one unit of gas. */
  readonly maxFeePerGasGwei: number
  /** Tip for one unit of gas. */
  readonly priorityFeePerGasGwei: number
  /** Limit for one store and day, in the network's coin. */
  readonly maxGasPerStoreAndDay: number
}

/** The fees of Base, which suffice on other layer 2 networks too. */
const standardFees: FeeDefaults = {
  maxFeePerGasGwei: 2,
  priorityFeePerGasGwei: 0.001,
  maxGasPerStoreAndDay: 0.05,
}

export const knownNetworks: readonly NetworkFacts[] = [
  { id: 'eip155:8453', name: 'base', title: 'Base', explorerTx: 'https://basescan.org/tx/' },
  {
    id: 'eip155:84532',
    name: 'base-sepolia',
    title: 'Base Sepolia',
    explorerTx: 'https://sepolia.basescan.org/tx/',
  },
  {
    id: 'eip155:1',
    name: 'ethereum',
    title: 'Ethereum',
    explorerTx: 'https://etherscan.io/tx/',
    fees: { maxFeePerGasGwei: 40, priorityFeePerGasGwei: 1, maxGasPerStoreAndDay: 0.05 },
  },
  {
    id: 'eip155:137',
    name: 'polygon',
    title: 'Polygon',
    explorerTx: 'https://polygonscan.com/tx/',
    // Validators accept no tip below 25 gwei. https://docs.polygon.technology/tools/gas/polygon-gas-station
    fees: { maxFeePerGasGwei: 500, priorityFeePerGasGwei: 30, maxGasPerStoreAndDay: 100 },
  },
  {
    id: 'eip155:42161',
    name: 'arbitrum',
    isInV1: false,
    title: 'Arbitrum One',
    explorerTx: 'https://arbiscan.io/tx/',
    // Transactions are ordered by their arrival, so a tip buys nothing.
    fees: { ...standardFees, priorityFeePerGasGwei: 0 },
  },
  {
    id: 'eip155:43114',
    name: 'avalanche',
    title: 'Avalanche',
    explorerTx: 'https://snowtrace.io/tx/',
    fees: { maxFeePerGasGwei: 50, priorityFeePerGasGwei: 0.001, maxGasPerStoreAndDay: 2 },
  },
  {
    id: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
    name: 'solana',
    title: 'Solana',
    explorerTx: 'https://explorer.solana.com/tx/',
  },
  {
    id: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
    name: 'solana-devnet',
    title: 'Solana Devnet',
    explorerTx: 'https://explorer.solana.com/tx/',
  },
]

const byId = new Map(knownNetworks.map((n) => [n.id as string, n]))
const byName = new Map(knownNetworks.map((n) => [n.name, n]))

/** The family of a CAIP-2 id. Undefined if the text has neither of the forms `eip155:<number>` and `solana:<32 base58>`. */
export function familyOf(network: string): ChainFamily | undefined {
  if (/^eip155:[1-9]\d{0,17}$/.test(network)) return 'eip155'
  if (/^solana:[1-9A-HJ-NP-Za-km-z]{32}$/.test(network)) return 'solana'
}

/** The address of a transaction in a block explorer. Undefined if Tollgate does not know the network. */
export function explorerUrl(network: string, transaction: string): string | undefined {
  const facts = byId.get(network)
  if (facts === undefined) return undefined
  const cluster = facts.name === 'solana-devnet' ? '?cluster=devnet' : ''
  return facts.explorerTx + encodeURIComponent(transaction) + cluster
}

export const factsOf = (network: string): NetworkFacts | undefined => byId.get(network)
export const feeDefaultsOf = (network: string): FeeDefaults => factsOf(network)?.fees ?? standardFees
/** The display name of a network, such as `Base`. If Tollgate does not know the network, its CAIP-2 id. */
export const networkTitle = (network: string): string => factsOf(network)?.title ?? network
export const networkOfV1Name = (name: string): NetworkId | undefined => byName.get(name)?.id
/**
 * The network's name in x402 version 1. Undefined if version 1 has no name for it, so that v1 clients get no offer on that network.
 */
export const v1NameOf = (network: string): string | undefined => {
  const facts = byId.get(network)
  return facts?.isInV1 === false ? undefined : facts?.name
}
/** The chain family of a name in the marketplace API. */
export const chainFamilyOf = (chain: ChainName): ChainFamily => (chain === 'solana' ? 'solana' : 'eip155')
export const chainNameOf = (network: string): ChainName =>
  familyOf(network) === 'solana' ? 'solana' : 'base'
