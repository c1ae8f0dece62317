/** A CAIP-2 chain id: `eip155:8453`, `solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp`. */
export type NetworkId = `eip155:${string}` | `solana:${string}`
export type ChainFamily = 'eip155' | 'solana'
/** The two names that the marketplace API uses for a chain family. */
export type ChainName = 'base' | 'solana'

/** What is known of a network without asking it. */
export interface NetworkFacts {
  readonly id: NetworkId
  /** Name in x402 version 1. */
  readonly v1Name: string
  readonly title: string
  readonly explorerTx: string
}

export const knownNetworks: readonly NetworkFacts[] = [
  { id: 'eip155:8453', v1Name: 'base', title: 'Base', explorerTx: 'https://basescan.org/tx/' },
  {
    id: 'eip155:84532',
    v1Name: 'base-sepolia',
    title: 'Base Sepolia',
    explorerTx: 'https://sepolia.basescan.org/tx/',
  },
  {
    id: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
    v1Name: 'solana',
    title: 'Solana',
    explorerTx: 'https://explorer.solana.com/tx/',
  },
  {
    id: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
    v1Name: 'solana-devnet',
    title: 'Solana Devnet',
    explorerTx: 'https://explorer.solana.com/tx/',
  },
]

const byId = new Map(knownNetworks.map((n) => [n.id as string, n]))
const byV1Name = new Map(knownNetworks.map((n) => [n.v1Name, n]))

/** The family of a CAIP-2 id; undefined for anything that is not `eip155:<number>` or `solana:<32 base58>`. */
export function familyOf(network: string): ChainFamily | undefined {
  if (/^eip155:[1-9]\d{0,17}$/.test(network)) return 'eip155'
  if (/^solana:[1-9A-HJ-NP-Za-km-z]{32}$/.test(network)) return 'solana'
}

/** Where a block explorer shows a transaction; undefined for a network that is not known. */
export function explorerUrl(network: string, transaction: string): string | undefined {
  const facts = byId.get(network)
  if (facts === undefined) return undefined
  const cluster = facts.v1Name === 'solana-devnet' ? '?cluster=devnet' : ''
  return facts.explorerTx + encodeURIComponent(transaction) + cluster
}

export const factsOf = (network: string): NetworkFacts | undefined => byId.get(network)
/** What people call a network: `Base`; of one that is not known, its CAIP-2 id. */
export const networkTitle = (network: string): string => factsOf(network)?.title ?? network
export const networkOfV1Name = (name: string): NetworkId | undefined => byV1Name.get(name)?.id
/** The v1 name of a network; undefined where version 1 has none, so v1 clients are not offered it. */
export const v1NameOf = (network: string): string | undefined => byId.get(network)?.v1Name
/** The other way: what a name of the marketplace API stands for. */
export const chainFamilyOf = (chain: ChainName): ChainFamily => (chain === 'solana' ? 'solana' : 'eip155')
export const chainNameOf = (network: string): ChainName =>
  familyOf(network) === 'solana' ? 'solana' : 'base'
