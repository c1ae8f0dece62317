import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

export const keyBytes = 32
export const nonceBytes = 12
export const tagBytes = 16
/** Number of bytes that sealing adds. */
export const sealOverheadBytes = nonceBytes + tagBytes

/**
 * AES-256-GCM (NIST SP 800-38D) with a 96-bit nonce. The result is nonce ‖ ciphertext ‖ tag. The nonce is random unless given,
 * and no key here seals more than 2³² messages with random nonces.
 */
export function seal(
  key: Uint8Array,
  plain: Uint8Array,
  associated: Uint8Array,
  nonce: Uint8Array = randomBytes(nonceBytes),
): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes }).setAAD(associated)
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** The plain bytes, or undefined when the key, the sealed bytes or the associated data do not match. */
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
    // `final` checks the tag. It outputs nothing more for GCM.
    decipher.final()
    return plain
  } catch {
    plain.fill(0)
    return undefined
  }
}

/** Joins parts so that no two lists of parts give the same bytes. Each part has its length before it. */
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
 * A key for one purpose, derived from the master key (HKDF-SHA256, RFC 5869). It depends on the purpose, the vault id and a
 * salt per file, so each key opens only what it sealed itself. The caller zeroes the key.
 */
export function deriveKey(masterKey: Uint8Array, use: string, vaultId: string, salt: Uint8Array): Buffer {
  return Buffer.from(
    hkdfSync('sha256', masterKey, salt, lengthPrefixed('tollgate vault', use, vaultId), keyBytes),
  )
}

/** The identity to which a record's ciphertext is bound. The ciphertext cannot be opened with another identity. */
interface RecordName {
  readonly vaultId: string
  /** Collection and id, such as `value/identity.name`. */
  readonly scope: string
  readonly version: number
}

/** Size of the wrapped data key at the start of a sealed record. */
const wrappedBytes = keyBytes + sealOverheadBytes

/**
 * Envelope encryption. A data key, which only this version of this record has, seals the value. The master key seals the data
 * key. The result is the wrapped data key ‖ the sealed value, both bound to the record's name.
 */
export function sealRecord(masterKey: Uint8Array, name: RecordName, value: Uint8Array): Buffer {
  const dataKey = randomBytes(keyBytes)
  try {
    return Buffer.concat([
      seal(masterKey, dataKey, associated('key', name)),
      seal(dataKey, value, associated('value', name)),
    ])
  } finally {
    dataKey.fill(0)
  }
}

/** Opens a record. Undefined if any part of the record was changed. The caller zeroes the value. */
export function openRecord(masterKey: Uint8Array, name: RecordName, sealed: Uint8Array): Buffer | undefined {
  const dataKey = unseal(masterKey, sealed.subarray(0, wrappedBytes), associated('key', name))
  if (dataKey === undefined) return undefined
  try {
    return unseal(dataKey, sealed.subarray(wrappedBytes), associated('value', name))
  } finally {
    dataKey.fill(0)
  }
}

function associated(part: 'key' | 'value', { vaultId, scope, version }: RecordName): Buffer {
  return lengthPrefixed('tollgate vault record', part, vaultId, scope, String(version))
}
