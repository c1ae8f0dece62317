/**
 * What the bytes are, so that the process that signs can refuse bytes of another kind:
 * - `evm-transaction`: the unsigned transaction as serialised for signing (RLP, or a type byte 1 or 2 and RLP), hashed
 *   with keccak-256 by the signing process. Blobs (EIP-4844, type 3), set-code transactions (EIP-7702, type 4) and types
 *   that are not known are refused.
 * - `evm-message`: the message's own bytes; the signing process puts the EIP-191 prefix before them and hashes. Refused
 *   when they are a transaction, typed data, or 32 bytes that can be a hash.
 * - `evm-typed-data`: the 66 bytes `0x1901 ‖ domainSeparator ‖ structHash` of EIP-712.
 * - `solana-transaction`: a serialised message (legacy or v0) without its signatures, with the key among its signers.
 * - `solana-message`: bytes that do not parse as a transaction.
 */
export type SignKind =
  | 'evm-transaction'
  | 'evm-message'
  | 'evm-typed-data'
  | 'solana-transaction'
  | 'solana-message'

export interface SignRequest {
  /**
   * Names this one act of signing; 1 to 128 characters. One id never gets two signatures from one process (the last
   * 50,000 are remembered); across restarts the budget book's reservations are what refuses a second one.
   */
  readonly requestId: string
  readonly keyId: string
  readonly kind: SignKind
  /** The frozen bytes: copied before anything else happens, so that a later change of the buffer changes nothing. */
  readonly bytes: Uint8Array
}

export interface Signature {
  /** 65 bytes r, s, recovery (0 or 1), s in the lower half (EIP-2), for EVM; 64 bytes for Solana (RFC 8032). */
  readonly bytes: Buffer
}

/**
 * Signs in a child process that alone holds the private keys.
 *
 * A request is sent to the child once. When the child dies with it, the request fails with `SIGNER_LOST` and its id stays
 * used (`REQUEST_ID_USED` for a second try): nobody can know how far it got. The next request finds a new child.
 */
export interface Signer {
  /**
   * @throws `VAULT_LOCKED`, `KEY_UNKNOWN`, `REQUEST_ID_USED`, `SIGNER_LOST`, `INVALID_TX` when the bytes are not of the kind.
   */
  sign(request: SignRequest): Promise<Signature>
}
