import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import type { Sealer } from '../../core/ports/sealer.ts'

const nonceBytes = 12
const tagBytes = 16
/** Says how a text was sealed, so that a later way can stand beside it. */
const prefix = 'v1.'

/**
 * Seals with AES-256-GCM (NIST SP 800-38D) under keys derived from the server's secret by HKDF-SHA256 (RFC 5869), one
 * key a purpose: a key of one use is worth nothing in another.
 *
 * @param secret at least 32 random bytes; see `loadSecret`.
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
          `Expected a text that this server's secret sealed for ${context}; it was changed, belongs elsewhere, ` +
            'or the secret is another one. Start with the secret that the database was written with.',
          { cause },
        )
      }
    },

    mac: (purpose, text) => macOf(purpose)(text),
  }
}

/** Bytes that SHA-256 takes in at a time, and that an HMAC key is filled up to. */
const blockBytes = 64
const hashBytes = 32

/**
 * HMAC-SHA256 (RFC 2104) of UTF-8 text under one key. Each of its two hashes is made in one go, behind a block that is made
 * once a key: the object of `createHmac` costs two to three times as much, and every sale needs one (bench/paid.ts).
 *
 * @param key at most 64 bytes; a longer one would have to be hashed first
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
    // As text, one char a byte: for node, making a buffer of a hash is dearer than hashing.
    outer.write(hash('sha256', message, 'latin1'), blockBytes, 'latin1')
    return Buffer.from(hash('sha256', outer, 'latin1'), 'latin1')
  }
}
