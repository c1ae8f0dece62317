import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import type { Sealer } from '../../core/ports/sealer.ts'

const nonceBytes = 12
const tagBytes = 16
/** The version of the sealed text's format, so that readers can distinguish later formats. */
const prefix = 'v1.'

/**
 * Seals with AES-256-GCM (NIST SP 800-38D). HKDF-SHA256 (RFC 5869) derives one key per purpose from the server's secret, so that a
 * key of one purpose is useless for another.
 *
 * @param secret at least 32 random bytes; see `loadSecret`
 */
export function createSealer(secret: Uint8Array): Sealer {
  if (secret.length < 32) throw new RangeError(`Expected a secret of 32 bytes or more, got ${secret.length}.`)
  const derive = (purpose: string) => Buffer.from(hkdfSync('sha256', secret, '', `tollgate ${purpose}`, 32))
  const sealingKey = derive('seal')
  const macs = new Map<string, (text: string) => Buffer>()
  const macOf = (purpose: string) => {
    let mac = macs.get(purpose)
    if (mac === undefined) macs.set(purpose, (mac = hmacSha256(derive(`mac ${purpose}`))))
    return mac
  }

  return {
    seal(plain, context) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', sealingKey, nonce).setAAD(Buffer.from(prefix + context))
      const sealed = Buffer.concat([nonce, cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return prefix + sealed.toString('base64url')
    },

    open(sealed, context) {
      try {
        if (!sealed.startsWith(prefix)) throw new Error('another form')
        const bytes = Buffer.from(sealed.slice(prefix.length), 'base64url')
        const tagAt = bytes.length - tagBytes
        if (tagAt < nonceBytes) throw new Error('too short')
        const decipher = createDecipheriv('aes-256-gcm', sealingKey, bytes.subarray(0, nonceBytes), {
          authTagLength: tagBytes,
        })
          .setAAD(Buffer.from(prefix + context))
          .setAuthTag(bytes.subarray(tagAt))
        const plain = Buffer.concat([decipher.update(bytes.subarray(nonceBytes, tagAt)), decipher.final()])
        return plain.toString('utf8')
      } catch (cause) {
        throw new Error(
          `Expected a text that this server's secret sealed for ${context}. The text was changed, belongs elsewhere, ` +
            'or was sealed with another secret. Start with the secret that the database was written with.',
          { cause },
        )
      }
    },

    mac: (purpose, text) => macOf(purpose)(text),
  }
}

/** Block length of SHA-256 in bytes. HMAC extends its key with zeros to this length. */
const blockBytes = 64
const hashBytes = 32

/**
 * HMAC-SHA256 (RFC 2104) of UTF-8 text under one key. Each of its two hashes takes one call, because the first block is prepared
 * once per key. `createHmac` would take two to three times as long, and every sale needs an HMAC (bench/paid.ts).
 *
 * @param key at most 64 bytes; a longer key would have to be hashed first
 * @throws {RangeError} for a longer key
 */
export function hmacSha256(key: Uint8Array): (text: string) => Buffer {
  if (key.length > blockBytes)
    throw new RangeError(`Expected a key of ${blockBytes} bytes or fewer, got ${key.length}.`)
  const padded = (pad: number) => Uint8Array.from({ length: blockBytes }, (_, i) => (key[i] ?? 0) ^ pad)
  const inner = padded(0x36)
  const outer = Buffer.alloc(blockBytes + hashBytes)
  outer.set(padded(0x5c))
  return (text) => {
    const message = Buffer.allocUnsafe(blockBytes + Buffer.byteLength(text))
    message.set(inner)
    message.write(text, blockBytes, 'utf8')
    // The hash is text with one character per byte, because creating a buffer takes Node longer than hashing.
    outer.write(hash('sha256', message, 'latin1'), blockBytes, 'latin1')
    return Buffer.from(hash('sha256', outer, 'latin1'), 'latin1')
  }
}
