import type { NetworkId } from './network.ts'

/** A token on one network in which a link can be paid. */
export interface Asset {
  readonly network: NetworkId
  /** Token contract (EVM, checksummed or not) or mint (Solana). */
  readonly address: string
  readonly symbol: string
  readonly decimals: number
  /** EIP-712 domain of the token (EVM only). */
  readonly eip712?: { readonly name: string; readonly version: string }
  /** `permit2` if payments by `exact` need Permit2, because the token does not have EIP-3009 (EVM only). */
  readonly transferMethod?: 'permit2'
  /** Whether the token has EIP-2612, so that a buyer can allow Permit2 by a signature (EVM only). */
  readonly hasPermit?: boolean
  /** The token program that owns the mint (Solana only). */
  readonly program?: 'token' | 'token-2022'
  /** The platform's fee in hundredths of a percent, so that 500 is 5 %. */
  readonly feeBps: number
  /** The value of one whole unit in USDC, as a decimal string. It is `1` for USDC itself. */
  readonly usdPerUnit: string
}

/** The USDC deployments on the built-in networks, with a fee of 5 %. The domains are those of @x402/evm 2.27.0. */
export const builtInAssets: readonly Asset[] = [
  usdc('eip155:8453', '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', 'USD Coin'),
  usdc('eip155:84532', '0x036CbD53842c5426634e7929541eC2318f3dCF7e', 'USDC'),
  usdc('eip155:1', '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48', 'USD Coin'),
  usdc('eip155:137', '0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359', 'USD Coin'),
  usdc('eip155:42161', '0xaf88d065e77c8cC2239327C5EDb3A432268e5831', 'USD Coin'),
  usdc('eip155:43114', '0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E', 'USD Coin'),
  usdc('solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp', 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v'),
  usdc('solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1', '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU'),
]

/** A token that Tollgate knows, but that is only accepted if the operator states its value. */
export type AssetPreset = Omit<Asset, 'usdPerUnit'>

/**
 * Circle's EURC, whose contract is the one of USDC, with EIP-3009 and EIP-2612. Ethereum and Avalanche are left out, because public
 * sources disagree about the EIP-712 domain there. An operator can state it.
 *
 * @see https://developers.circle.com/stablecoins/eurc-contract-addresses
 */
export const assetPresets: readonly AssetPreset[] = [
  eurc('eip155:8453', '0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42'),
  eurc('eip155:84532', '0x808456652fdb597867f38412077A9182bf77359F'),
]

function eurc(network: NetworkId, address: string): AssetPreset {
  const eip712 = { name: 'EURC', version: '2' }
  return { network, address, symbol: 'EURC', decimals: 6, eip712, hasPermit: true, feeBps: 500 }
}

function usdc(network: NetworkId, address: string, eip712Name?: string): Asset {
  const base = { network, address, symbol: 'USDC', decimals: 6, feeBps: 500, usdPerUnit: '1' }
  return eip712Name === undefined
    ? { ...base, program: 'token' }
    : { ...base, eip712: { name: eip712Name, version: '2' }, hasPermit: true }
}
