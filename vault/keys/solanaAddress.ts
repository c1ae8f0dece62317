import { base58 } from '@scure/base'

/** The address of an Ed25519 public key: its 32 bytes in base58. */
export function solanaAddress(publicKey: Uint8Array): string {
  if (publicKey.length !== 32)
    throw new RangeError(`Expected a public key of 32 bytes, got ${publicKey.length}.`)
  return base58.encode(publicKey)
}
