import { createPrivateKey, createPublicKey, sign } from 'node:crypto'
import { base58 } from '@scure/base'
import { sameBytes } from './bytes.ts'

/** DER of an Ed25519 private key up to the 32 seed bytes (RFC 8410). */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex')

/** A key that signs; the secret itself is not readable from it. */
export interface SigningKey {
  /** Base58. */
  readonly address: string
  /** 64 bytes, the same for the same message (Ed25519 is deterministic): a message has one transaction id. */
  sign(message: Uint8Array): Uint8Array
}

/**
 * Reads a secret of 64 bytes, seed and public key, as Solana's tools write them.
 *
 * @returns undefined when the second half is not the public key of the first, or the length is another
 */
export function readSigningKey(secret: Uint8Array): SigningKey | undefined {
  if (secret.length !== 64) return undefined
  const key = Buffer.concat([pkcs8Prefix, secret.subarray(0, 32)])
  const privateKey = createPrivateKey({ key, format: 'der', type: 'pkcs8' })
  const publicKey = createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-32)
  if (!sameBytes(publicKey, secret.subarray(32))) return undefined
  return { address: base58.encode(publicKey), sign: (message) => sign(null, message, privateKey) }
}
