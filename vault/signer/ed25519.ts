import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'

/** PKCS #8 around a raw Ed25519 seed (RFC 8410, section 7). */
const pkcs8 = Buffer.from('302e020100300506032b657004220420', 'hex')

/** A key object of 32 private bytes; the copy that it was made from is zeroed, the bytes given are the caller's. */
export function ed25519Key(privateKey: Uint8Array): KeyObject {
  if (privateKey.length !== 32)
    throw new RangeError(`Expected a private key of 32 bytes, got ${privateKey.length}.`)
  const der = Buffer.concat([pkcs8, privateKey])
  try {
    return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  } finally {
    der.fill(0)
  }
}

/** The 32 bytes of the public key. */
export function ed25519PublicKey(key: KeyObject): Buffer {
  return createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32)
}

/** 64 bytes (RFC 8032, section 5.1.6); deterministic. */
export function ed25519Sign(key: KeyObject, message: Uint8Array): Buffer {
  return sign(null, message, key)
}
