import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { Sealer } from '../../core/ports/sealer.ts'
import { hmacSha256 } from './hmacSha256.ts'

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
