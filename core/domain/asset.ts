import type { NetworkId } from './network.ts'

/** A token that a link can be paid in, on one network. */
export interface Asset {
  readonly network: NetworkId
  /** Token contract (EVM, checksummed or not) or mint (Solana). */
  readonly address: string
  readonly symbol: string
  readonly decimals: number
  /** EIP-712 domain of the token (EVM only). */
  readonly eip712?: { readonly name: string; readonly version: string }
  /** Solana only: the token program that owns the mint. */
  readonly program?: 'token' | 'token-2022'
  /** The platform's fee in hundredths of a percent: 500 are 5 %. */
  readonly feeBps: number
  /** What one whole unit is worth in USDC, as a decimal string; `1` for USDC itself. */
  readonly usdPerUnit: string
}

/** The USDC deployments of the networks that Tollgate knows; fee 5 %. */
export const builtInAssets: readonly Asset[] = [
  usdc('eip155:8453', '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', 'USD Coin'),
  usdc('eip155:84532', '0x036CbD53842c5426634e7929541eC2318f3dCF7e', 'USDC'),
  usdc('solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp', 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v'),
  usdc('solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1', '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU'),
]

function usdc(network: NetworkId, address: string, eip712Name?: string): Asset {
  const base = { network, address, symbol: 'USDC', decimals: 6, feeBps: 500, usdPerUnit: '1' }
  return eip712Name === undefined
    ? { ...base, program: 'token' }
    : { ...base, eip712: { name: eip712Name, version: '2' } }
}
