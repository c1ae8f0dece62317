import { base58 } from '@scure/base'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { newSolanaSecret } from './demoBuyer.ts'
import type { LocalSolana } from './solana/startLocalSolana.ts'

/** A seller with a wallet on each local chain. */
export interface DemoSeller {
  readonly evmAddress: string
  readonly solanaAddress: string
  /** Of the EVM wallet, 0x-hex: worth nothing, the chain ends with the process. */
  readonly evmPrivateKey: string
  /** Signs a sign-in text with the EVM wallet (EIP-191), hex. */
  signMessage(message: string): Promise<string>
}

/** The Solana wallet gets its USDC account: a payment by x402 never makes one. */
export function createDemoSeller(solana: LocalSolana): DemoSeller {
  const evmPrivateKey = generatePrivateKey()
  const account = privateKeyToAccount(evmPrivateKey)
  const solanaAddress = base58.encode(newSolanaSecret().subarray(32))
  solana.createAta(solanaAddress)
  return {
    evmAddress: account.address,
    solanaAddress,
    evmPrivateKey,
    signMessage: (message) => account.signMessage({ message }),
  }
}
