import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

export const keyBytes = 32
export const nonceBytes = 12
export const tagBytes = 16
/** What sealing adds to the plain bytes. */
export const sealOverheadBytes = nonceBytes + tagBytes

/**
 * AES-256-GCM (NIST SP 800-38D) with a random 96-bit nonce: nonce ‖ ciphertext ‖ tag. No key here seals more than 2³²
 * messages: record keys seal one, log keys live for one file.
 */
export function seal(key: Uint8Array, plain: Uint8Array, associated: Uint8Array): Buffer {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes }).setAAD(associated)
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** The plain bytes, or undefined when the key, the sealed bytes or what they belong to is another. */
export function unseal(key: Uint8Array, sealed: Uint8Array, associated: Uint8Array): Buffer | undefined {
  const tagAt = sealed.length - tagBytes
  if (tagAt < nonceBytes) return undefined
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  })
    .setAAD(associated)
    .setAuthTag(sealed.subarray(tagAt))
  const plain = decipher.update(sealed.subarray(nonceBytes, tagAt))
  try {
    // GCM gives out nothing more at the end; `final` is the check of the tag.
    decipher.final()
    return plain
  } catch {
    plain.fill(0)
    return undefined
  }
}

/** Joins parts so that no two lists of parts give the same bytes: each is preceded by its length. */
export function lengthPrefixed(...parts: readonly (string | Uint8Array)[]): Buffer {
  const chunks: Buffer[] = []
  for (const part of parts) {
    const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : Buffer.from(part)
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.length)
    chunks.push(length, bytes)
  }
  return Buffer.concat(chunks)
}

/**
 * A key of one use from the master key (HKDF-SHA256, RFC 5869). Each use has a name, each vault an id and each file a
 * salt, so that what one key seals opens nowhere else. The caller zeroes it.
 */
export function deriveKey(masterKey: Uint8Array, use: string, vaultId: string, salt: Uint8Array): Buffer {
  return Buffer.from(
    hkdfSync('sha256', masterKey, salt, lengthPrefixed('tollgate vault', use, vaultId), keyBytes),
  )
}
