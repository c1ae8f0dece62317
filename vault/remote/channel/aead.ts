import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import { tagBytes } from './suite.ts'

const cipher = 'chacha20-poly1305'

/** ChaCha20-Poly1305 (RFC 8439). A pair of key and nonce is used for one plaintext only. */
export function sealBytes(key: Buffer, nonce: Buffer, aad: Buffer, plaintext: Buffer): Buffer {
  const sealing = createCipheriv(cipher, key, nonce, { authTagLength: tagBytes })
  sealing.setAAD(aad, { plaintextLength: plaintext.byteLength })
  return Buffer.concat([sealing.update(plaintext), sealing.final(), sealing.getAuthTag()])
}

/** Undefined when a single bit of key, nonce, associated data or ciphertext differs. */
export function openBytes(key: Buffer, nonce: Buffer, aad: Buffer, sealed: Buffer): Buffer | undefined {
  if (sealed.byteLength < tagBytes) return undefined
  const opening = createDecipheriv(cipher, key, nonce, { authTagLength: tagBytes })
  opening.setAAD(aad, { plaintextLength: sealed.byteLength - tagBytes })
  opening.setAuthTag(sealed.subarray(sealed.byteLength - tagBytes))
  const plaintext = opening.update(sealed.subarray(0, sealed.byteLength - tagBytes))
  try {
    opening.final()
    return plaintext
  } catch {
    return undefined
  }
}

/** HKDF-SHA256 (RFC 5869), extract and expand in one. */
export const derive = (secret: Uint8Array, salt: Uint8Array, label: string, bytes = 32): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, salt, label, bytes))
