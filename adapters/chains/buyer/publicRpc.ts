import type { NetworkId } from '../../../core/domain/network.ts'

const publicNodes: Readonly<Record<string, string>> = {
  'eip155:8453': 'https://mainnet.base.org',
  'eip155:84532': 'https://sepolia.base.org',
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': 'https://api.mainnet-beta.solana.com',
  'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1': 'https://api.devnet.solana.com',
}

/** The public node of a network, kept by its makers and rate limited; undefined for a network that has none here. */
export const publicRpcUrl = (network: NetworkId): string | undefined => publicNodes[network]
