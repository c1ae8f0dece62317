import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'
import { base58 } from '@scure/base'
import { sameBytes } from './wire.ts'

/**
 * Encodings of the points of small order with the sign bit cleared. They are y = 0, 1, the two of order 8, and p − 1, and the
 * spellings p and p + 1 of 0 and 1. RFC 8032, section 5.1.3, forbids the last two, but some decoders accept them.
 */
const smallOrder = [
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
].map((hex) => Buffer.from(hex, 'hex'))

/**
 * Verifies an Ed25519 signature as strictly as a cluster does (`verify_strict`). node:crypto checks the equation and that S is
 * canonical. In addition, neither the key nor R may be of small order. OpenSSL before 3.5 accepts such keys, and for some of them
 * any signature can be forged. For example, the all-zero key is the System program's address, so a payment "signed" by that key
 * would pass here and never on chain. Never throws.
 *
 * @param key 32 bytes
 * @param signature 64 bytes
 */
export function verifyEd25519(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (key.length !== 32 || signature.length !== 64) return false
  if (hasSmallOrder(key) || hasSmallOrder(signature)) return false
  try {
    // A key as JWK is parsed in a third of the time of a key as DER (RFC 8037).
    const x = Buffer.from(key.buffer, key.byteOffset, 32).toString('base64url')
    const jwk = { kty: 'OKP', crv: 'Ed25519', x }
    return verify(null, message, createPublicKey({ key: jwk, format: 'jwk' }), signature)
  } catch {
    return false
  }
}

/** Whether the first 32 bytes are a point of small order. */
function hasSmallOrder(point: Uint8Array): boolean {
  for (const small of smallOrder) {
    let i = 0
    while (i < 31 && point[i] === small[i]) i++
    if (i === 31 && (point[31]! & 0x7f) === small[31]) return true
  }
  return false
}

/** DER of an Ed25519 private key up to the 32 seed bytes (RFC 8410). */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex')

/** A key that signs. The secret cannot be read from it. */
export interface SigningKey {
  /** Base58. */
  readonly address: string
  /**
   * Signs a message. The 64 bytes are always the same for the same message, because Ed25519 is deterministic. A message therefore
   * has only one transaction id.
   */
  sign(message: Uint8Array): Uint8Array
}

/**
 * Reads a secret of 64 bytes, which are seed and public key, as Solana's tools write it.
 *
 * @returns undefined if the second half is not the public key of the first half, or the length is wrong
 */
export function readSigningKey(secret: Uint8Array): SigningKey | undefined {
  if (secret.length !== 64) return undefined
  const key = Buffer.concat([pkcs8Prefix, secret.subarray(0, 32)])
  const privateKey = createPrivateKey({ key, format: 'der', type: 'pkcs8' })
  const publicKey = createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-32)
  if (!sameBytes(publicKey, secret.subarray(32))) return undefined
  return { address: base58.encode(publicKey), sign: (message) => sign(null, message, privateKey) }
}
