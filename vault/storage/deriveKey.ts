import { hkdfSync } from 'node:crypto'
import { keyBytes, lengthPrefixed } from './aead.ts'

/**
 * A key of one use from the master key (HKDF-SHA256, RFC 5869). Each use has a name, each vault an id and each file a
 * salt, so that what one key seals opens nowhere else. The caller zeroes it.
 */
export function deriveKey(masterKey: Uint8Array, use: string, vaultId: string, salt: Uint8Array): Buffer {
  return Buffer.from(
    hkdfSync('sha256', masterKey, salt, lengthPrefixed('tollgate vault', use, vaultId), keyBytes),
  )
}
