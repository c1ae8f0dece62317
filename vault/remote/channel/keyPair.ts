import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'

/** Raw keys, 32 bytes each: X25519 (RFC 7748) or Ed25519 (RFC 8032). */
export interface KeyPair {
  readonly publicKey: Buffer
  readonly privateKey: Buffer
}

export type Curve = 'X25519' | 'Ed25519'

/** A key pair as it is stored: base64. */
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

/** @throws when the bytes are no key of the curve. */
export function privateKeyObject(curve: Curve, { publicKey, privateKey }: KeyPair): KeyObject {
  const jwk = {
    kty: 'OKP',
    crv: curve,
    x: publicKey.toString('base64url'),
    d: privateKey.toString('base64url'),
  }
  return createPrivateKey({ key: jwk, format: 'jwk' })
}

/** @throws when the bytes are no key of the curve. */
export function publicKeyObject(curve: Curve, publicKey: Uint8Array): KeyObject {
  const x = Buffer.from(publicKey).toString('base64url')
  return createPublicKey({ key: { kty: 'OKP', crv: curve, x }, format: 'jwk' })
}
