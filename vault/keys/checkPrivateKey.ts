import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'
import { ed25519Key, ed25519PublicKey } from '../signer/ed25519.ts'
import { loadSecp256k1 } from '../signer/secp256k1.ts'

/**
 * The 32 private bytes of a raw key, in a buffer of their own.
 * @throws `VALIDATION_ERROR` for bytes that are no key; the message never repeats them.
 */
export function checkPrivateKey(family: KeyFamily, bytes: Uint8Array): Buffer {
  if (family === 'evm') {
    if (loadSecp256k1().isPrivateKey(bytes)) return Buffer.from(bytes)
    throw new VaultError('VALIDATION_ERROR', 'Expected 32 bytes from 1 to the order of secp256k1 less 1.')
  }
  if (bytes.length === 32) return Buffer.from(bytes)
  const seed = Buffer.from(bytes.subarray(0, 32))
  const isWhole = bytes.length === 64 && ed25519PublicKey(ed25519Key(seed)).equals(bytes.subarray(32))
  if (isWhole) return seed
  seed.fill(0)
  throw new VaultError(
    'VALIDATION_ERROR',
    'Expected 32 bytes, or 64 whose second half is the public key of the first.',
  )
}
