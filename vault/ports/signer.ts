/**
 * The kind of the bytes, so that the signing process can refuse bytes of another kind:
 * - `evm-transaction`: the unsigned transaction as serialized for signing (RLP, or a type byte 1 or 2 and RLP), hashed with
 *   keccak-256 by the signing process. Blobs (EIP-4844, type 3), set-code transactions (EIP-7702, type 4) and unknown types
 *   are refused.
 * - `evm-message`: the message's own bytes. The signing process adds the EIP-191 prefix and hashes. Refused when they are a
 *   transaction, typed data, or 32 bytes that can be a hash.
 * - `evm-typed-data`: the 66 bytes `0x1901 ‖ domainSeparator ‖ structHash` of EIP-712.
 * - `solana-transaction`: a serialized message (legacy or v0) without its signatures, with the key among its signers.
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
   * Identifies one act of signing, 1 to 128 characters. A process never returns two signatures for one id, of which it
   * remembers the last 50,000. After a restart, the budget's reservations prevent a second signature.
   */
  readonly requestId: string
  readonly keyId: string
  readonly kind: SignKind
  /** The frozen bytes. They are copied at once, so later changes of the buffer have no effect. */
  readonly bytes: Uint8Array
}

export interface Signature {
  /** 65 bytes r, s, recovery (0 or 1), s in the lower half (EIP-2), for EVM; 64 bytes for Solana (RFC 8032). */
  readonly bytes: Buffer
}

/**
 * Signs in a child process, which is the only process with the private keys.
 *
 * A request is sent to the child only once. If the child dies during the request, the request fails with `SIGNER_LOST`. Its
 * progress is unknown, so a second attempt with its id gets `REQUEST_ID_USED`.
 */
export interface Signer {
  /**
   * @throws `VAULT_LOCKED`, `KEY_UNKNOWN`, `REQUEST_ID_USED`, `SIGNER_LOST`, or `INVALID_TX` when the bytes are not of the
   *   stated kind
   */
  sign(request: SignRequest): Promise<Signature>
}
