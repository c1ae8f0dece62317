import { createCipheriv, createDecipheriv, hkdfSync, type webcrypto } from 'node:crypto'
import { Chacha20Poly1305 } from '@hpke/chacha20poly1305'
import { CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core'
import type { KeyPair } from './keyPair.ts'
import { lengthPrefixed } from './lengthPrefixed.ts'

/** What the two ends speak. A change of anything that is encrypted, signed or derived changes the name. */
export const protocol = 'tollgate-remote/1'

/** HPKE (RFC 9180): KEM 0x0020 X25519, KDF 0x0001 HKDF-SHA256, AEAD 0x0003 ChaCha20-Poly1305. */
export const suite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(),
  kdf: new HkdfSha256(),
  aead: new Chacha20Poly1305(),
})

/** Bytes of an encapsulated key, and of every public key. */
export const encBytes = 32

/** Bytes that ChaCha20-Poly1305 adds. */
export const tagBytes = 16

/** Whom a channel joins. A message for one vault or service can not be opened as one for another. */
export interface ChannelName {
  readonly vaultId: string
  readonly serviceId: string
}

/** HPKE's `info`: protocol, vault and service, each behind its length. */
export const channelInfo = ({ vaultId, serviceId }: ChannelName): Buffer =>
  lengthPrefixed(protocol, vaultId, serviceId)

/** The one-time secret that mode_auth_psk mixes in; the id is not secret. */
export interface PreShared {
  readonly id: Buffer
  /** At least 32 bytes of full strength (RFC 9180, section 9.5). */
  readonly key: Buffer
}

/** A sender's context towards one recipient, authenticated by the sender's static key. */
export async function senderContext(
  to: Buffer,
  from: KeyPair,
  info: Buffer,
  psk: PreShared | undefined,
): Promise<Awaited<ReturnType<typeof suite.createSenderContext>>> {
  return suite.createSenderContext({
    recipientPublicKey: await suite.kem.deserializePublicKey(to),
    senderKey: await cryptoKeys(from),
    info,
    ...(psk ? { psk } : {}),
  })
}

/** The recipient's side of {@link senderContext}. @throws when `enc` is no key or gives an all-zero secret. */
export async function recipientContext(
  at: KeyPair,
  from: Buffer,
  enc: Buffer,
  info: Buffer,
  psk: PreShared | undefined,
): Promise<Awaited<ReturnType<typeof suite.createRecipientContext>>> {
  return suite.createRecipientContext({
    recipientKey: await cryptoKeys(at),
    senderPublicKey: await suite.kem.deserializePublicKey(from),
    enc,
    info,
    ...(psk ? { psk } : {}),
  })
}

async function cryptoKeys({ publicKey, privateKey }: KeyPair): Promise<webcrypto.CryptoKeyPair> {
  const [open, secret] = await Promise.all([
    suite.kem.deserializePublicKey(publicKey),
    suite.kem.deserializePrivateKey(privateKey),
  ])
  return { publicKey: open, privateKey: secret }
}

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
