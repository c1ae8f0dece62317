import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  type webcrypto,
} from 'node:crypto'
import { Chacha20Poly1305 } from '@hpke/chacha20poly1305'
import { CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core'

/** Raw keys, 32 bytes each: X25519 (RFC 7748) or Ed25519 (RFC 8032). */
export interface KeyPair {
  readonly publicKey: Buffer
  readonly privateKey: Buffer
}

type Curve = 'X25519' | 'Ed25519'

/** A key pair as stored: base64. */
export interface StoredKeyPair {
  readonly publicKey: string
  readonly privateKey: string
}

export function createKeyPair(curve: Curve): KeyPair {
  const { privateKey } = curve === 'X25519' ? generateKeyPairSync('x25519') : generateKeyPairSync('ed25519')
  const { d, x } = privateKey.export({ format: 'jwk' })
  return { publicKey: Buffer.from(x!, 'base64url'), privateKey: Buffer.from(d!, 'base64url') }
}

export const toStored = ({ publicKey, privateKey }: KeyPair): StoredKeyPair => ({
  publicKey: publicKey.toString('base64'),
  privateKey: privateKey.toString('base64'),
})

export const fromStored = ({ publicKey, privateKey }: StoredKeyPair): KeyPair => ({
  publicKey: Buffer.from(publicKey, 'base64'),
  privateKey: Buffer.from(privateKey, 'base64'),
})

/** @throws when the bytes are not a key of the curve */
export function privateKeyObject(curve: Curve, { publicKey, privateKey }: KeyPair): KeyObject {
  const jwk = {
    kty: 'OKP',
    crv: curve,
    x: publicKey.toString('base64url'),
    d: privateKey.toString('base64url'),
  }
  return createPrivateKey({ key: jwk, format: 'jwk' })
}

/** @throws when the bytes are not a key of the curve */
export function publicKeyObject(curve: Curve, publicKey: Uint8Array): KeyObject {
  const x = Buffer.from(publicKey).toString('base64url')
  return createPublicKey({ key: { kty: 'OKP', crv: curve, x }, format: 'jwk' })
}

/**
 * Joins byte strings so that no two lists give the same bytes. Each part has a four-byte big-endian length before it. Text is
 * UTF-8. Everything that is signed or authenticated is joined this way, never by plain concatenation.
 *
 * @example lengthPrefixed('request', requestId, uint64(7)) // differs from every other triple
 */
export function lengthPrefixed(...parts: readonly (string | Uint8Array)[]): Buffer {
  const pieces: Uint8Array[] = []
  for (const part of parts) {
    const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : part
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.byteLength)
    pieces.push(length, bytes)
  }
  return Buffer.concat(pieces)
}

/** Eight bytes, big-endian. @throws RangeError unless the value is an integer from 0 to 2^53 - 1 */
export function uint64(value: number): Buffer {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new RangeError('expected an integer from 0 to 2^53 - 1')
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(value))
  return bytes
}

/** Reads what {@link uint64} wrote. Undefined if the number is above 2^53 - 1. */
export function readUint64(bytes: Buffer, offset: number): number | undefined {
  const value = bytes.readBigUInt64BE(offset)
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : undefined
}

/** The name of the protocol, which both ends use. Any change to what is encrypted, signed or derived needs a new name. */
export const protocol = 'tollgate-remote/1'

/** HPKE (RFC 9180): KEM 0x0020 X25519, KDF 0x0001 HKDF-SHA256, AEAD 0x0003 ChaCha20-Poly1305. */
export const suite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(),
  kdf: new HkdfSha256(),
  aead: new Chacha20Poly1305(),
})

/** Bytes of an encapsulated key, and of every public key. */
export const encBytes = 32

/** Number of bytes that ChaCha20-Poly1305 adds. */
export const tagBytes = 16

/** The two ends of a channel. A message for one vault or service cannot be opened as a message for another. */
export interface ChannelName {
  readonly vaultId: string
  readonly serviceId: string
}

/** HPKE's `info`: protocol, vault and service, each length-prefixed. */
export const channelInfo = ({ vaultId, serviceId }: ChannelName): Buffer =>
  lengthPrefixed(protocol, vaultId, serviceId)

/** The one-time secret that mode_auth_psk mixes in. Its id is not secret. */
export interface PreShared {
  readonly id: Buffer
  /** At least 32 bytes of full strength (RFC 9180, section 9.5). */
  readonly key: Buffer
}

/** Creates the sender's HPKE context towards one recipient. The sender's static key authenticates it. */
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

/** Creates the recipient's context for {@link senderContext}. @throws if `enc` is not a key or gives an all-zero secret */
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

/** Seals with ChaCha20-Poly1305 (RFC 8439). A pair of key and nonce may seal only one plaintext. */
export function sealBytes(key: Buffer, nonce: Buffer, aad: Buffer, plaintext: Buffer): Buffer {
  const sealing = createCipheriv(cipher, key, nonce, { authTagLength: tagBytes })
  sealing.setAAD(aad, { plaintextLength: plaintext.byteLength })
  return Buffer.concat([sealing.update(plaintext), sealing.final(), sealing.getAuthTag()])
}

/** Undefined if the key, nonce, associated data or ciphertext differ. */
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

/** HKDF-SHA256 (RFC 5869), extract and expand. */
export const derive = (secret: Uint8Array, salt: Uint8Array, label: string, bytes = 32): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, salt, label, bytes))
