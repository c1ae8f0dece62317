import type { ChainName } from '../../domain/network.ts'

/** Proof that a wallet signed a text: EOA (EIP-191), contract wallets (ERC-1271, ERC-6492), Solana Ed25519. */
export interface WalletProofs {
  /** The address in its canonical form (EVM checksummed, Solana base58), or undefined when it is not one of the chain. */
  canonicalAddress(chain: ChainName, address: string): string | undefined
  /** The text to sign: EIP-4361 for base, the Solana sign-in text for solana. */
  signInMessage(fields: SignInFields): string
  /** EVM: hex signatures. Solana: base64 or base58. False for anything that does not prove it; rejects only when the chain can't be asked. */
  verifyMessage(chain: ChainName, address: string, message: string, signature: string): Promise<boolean>
}

export interface SignInFields {
  readonly chain: ChainName
  readonly address: string
  readonly domain: string
  readonly uri: string
  readonly statement: string
  readonly nonce: string
  readonly issuedAtMs: number
  readonly expiresAtMs: number
}
