import { keccak256 } from '../../../../core/evm/keccak.ts'
import { type Secp256k1, secp256k1 } from '../check/secp256k1.ts'

/** Half the order of secp256k1: a signature with a larger s has a twin, and tokens refuse it (EIP-2, EIP-1271 text). */
const halfOrder = Buffer.from('7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0', 'hex')
const signatureChars = 2 + 65 * 2

/**
 * Whose key made this signature: the lower-case address, or undefined when it is not a plain 65-byte signature as a
 * token takes it: v is 27 or 28, s in the lower half. Anything else may still be a contract wallet's.
 *
 * It must stay a recovery. A check against a known public key is faster, but ignores v, which the token does not.
 *
 * @param signature 0x and hex digits in lower case
 */
export function recoverSigner(
  digest: Uint8Array,
  signature: string,
  curve: Secp256k1 = secp256k1,
): string | undefined {
  if (signature.length !== signatureChars) return undefined
  const bytes = Buffer.from(signature.slice(2), 'hex')
  const v = bytes[64]
  if (v !== 27 && v !== 28) return undefined
  if (bytes.compare(halfOrder, 0, 32, 32, 64) > 0) return undefined
  const key = curve.recover(bytes.subarray(0, 64), v - 27, digest)
  if (key === undefined) return undefined
  const hash = keccak256(key.subarray(1))
  return `0x${Buffer.from(hash.buffer, hash.byteOffset + 12, 20).toString('hex')}`
}
