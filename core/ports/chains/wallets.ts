import type { ChainName, NetworkId } from '../../domain/network.ts'

/** Checks that a wallet has signed a text. Supports EOAs (EIP-191), contract wallets (ERC-1271, ERC-6492) and Solana Ed25519. */
export interface WalletProofs {
  /**
   * The address in the spelling that Tollgate stores, with checksum on EVM and in base58 on Solana. Undefined if the text is no
   * address of the chain.
   */
  canonicalAddress(chain: ChainName, address: string): string | undefined
  /** The text to sign, which is EIP-4361 for Base and the Solana sign-in text for Solana. */
  signInMessage(fields: SignInFields): string
  /**
   * Whether the signature proves that the wallet has signed the message. Signatures are hex on EVM, and base64 or base58 on Solana.
   * Rejects only if the chain cannot be queried.
   */
  verifyMessage(chain: ChainName, address: string, message: string, signature: string): Promise<boolean>
  /**
   * Like {@link verifyMessage}, for what a wallet did on several networks.
   *
   * @param network the network that the wallet has named
   * @returns where the signature proves the wallet. Undefined if it proves nothing. `unchecked` if it is by no key of the address, and
   *   the contract wallets of this network are not checked
   */
  proofOf(
    network: NetworkId,
    address: string,
    message: string,
    signature: string,
  ): Promise<WalletProof | 'unchecked' | undefined>
}

export interface WalletProof {
  /**
   * The only network on which the wallet is proven, because a contract at the same address on another network can have another
   * owner. Null if a key has signed, so that the wallet is proven on all networks of the chain.
   */
  readonly network: NetworkId | null
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
  /** The network that the text names. Absent: the EVM chain of the dashboard's sign-in, and no network on Solana. */
  readonly network?: NetworkId
}
