/**
 * Signs offers and receipts with a secp256k1 key of the gateway. The key holds no money. It is derived from the server's secret, so
 * every process of an installation has the same key after every restart.
 */
export interface ReceiptSigner {
  /** Ethereum address of the key, with its checksum (EIP-55). */
  readonly address: string
  /** The uncompressed public key, which is 65 bytes that begin with 4. */
  readonly publicKey: Uint8Array
  /**
   * Signs deterministically (RFC 6979), so that the same digest always gets the same signature.
   *
   * @param digest 32 bytes
   * @returns `r`, `s` and `v` (27 or 28), 65 bytes in hex with 0x
   */
  sign(digest: Uint8Array): string
}
