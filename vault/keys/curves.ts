import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { createRequire } from 'node:module'
import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'

/**
 * The 32 private bytes of a raw key, in a new buffer.
 * @throws `VALIDATION_ERROR` for bytes that are not a key. The message never contains them
 */
export function checkPrivateKey(family: KeyFamily, bytes: Uint8Array): Buffer {
  if (family === 'evm') {
    if (loadSecp256k1().isPrivateKey(bytes)) return Buffer.from(bytes)
    throw new VaultError(
      'VALIDATION_ERROR',
      'Expected 32 bytes with a value from 1 to the secp256k1 order minus 1.',
    )
  }
  if (bytes.length === 32) return Buffer.from(bytes)
  const seed = Buffer.from(bytes.subarray(0, 32))
  const isWhole = bytes.length === 64 && ed25519PublicKey(ed25519Key(seed)).equals(bytes.subarray(32))
  if (isWhole) return seed
  seed.fill(0)
  throw new VaultError(
    'VALIDATION_ERROR',
    'Expected 32 bytes, or 64 bytes whose second half is the public key of the first half.',
  )
}

/** PKCS #8 prefix of a raw Ed25519 seed (RFC 8410, section 7). */
const pkcs8 = Buffer.from('302e020100300506032b657004220420', 'hex')

/** A key object from 32 private bytes. The intermediate copy is zeroed. The caller still owns the given bytes. */
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

/** Signs a message. The 64 bytes (RFC 8032, section 5.1.6) are deterministic. */
export function ed25519Sign(key: KeyObject, message: Uint8Array): Buffer {
  return sign(null, message, key)
}

const require = createRequire(import.meta.url)

/** Signing on secp256k1 by one of two libraries. Both are deterministic (RFC 6979), so both give the same bytes. */
export interface Secp256k1Signer {
  readonly name: 'libsecp256k1' | 'noble'
  /** 65 bytes r, s, recovery, with s in the lower half of the order (EIP-2). @param digest 32 bytes */
  sign(digest: Uint8Array, privateKey: Uint8Array): Buffer
  /** 65 bytes, of which the first is 4. */
  publicKey(privateKey: Uint8Array): Buffer
  /** Whether these 32 bytes are a private key, which is not zero and below the order. */
  isPrivateKey(bytes: Uint8Array): boolean
}

/**
 * Loads libsecp256k1, which runs in constant time, from the prebuilt addon of npm `secp256k1`. @throws when the addon does not
 * load here
 */
export function loadNative(): Secp256k1Signer {
  // `bindings` is imported instead of the package, because the package falls back to elliptic, which is slow and unmaintained.
  const native = require('secp256k1/bindings.js') as {
    ecdsaSign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
    publicKeyCreate(key: Uint8Array, compressed: boolean): Uint8Array
    privateKeyVerify(key: Uint8Array): boolean
  }
  return {
    name: 'libsecp256k1',
    sign(digest, privateKey) {
      const { signature, recid } = native.ecdsaSign(digest, privateKey)
      return Buffer.concat([signature, Uint8Array.of(recid)])
    },
    publicKey: (privateKey) => Buffer.from(native.publicKeyCreate(privateKey, false)),
    isPrivateKey: (bytes) => bytes.length === 32 && native.privateKeyVerify(bytes),
  }
}

/**
 * Loads the audited JavaScript of @noble/curves. It needs no addon, is slower, and runs in constant time only as far as
 * JavaScript can.
 */
export function loadNoble(): Secp256k1Signer {
  const { secp256k1 } = require('@noble/curves/secp256k1') as typeof import('@noble/curves/secp256k1')
  return {
    name: 'noble',
    sign(digest, privateKey) {
      const signature = secp256k1.sign(digest, privateKey, { lowS: true, prehash: false })
      return Buffer.concat([signature.toCompactRawBytes(), Uint8Array.of(signature.recovery)])
    },
    publicKey: (privateKey) => Buffer.from(secp256k1.getPublicKey(privateKey, false)),
    isPrivateKey: (bytes) => bytes.length === 32 && secp256k1.utils.isValidPrivateKey(bytes),
  }
}

/** The faster of the two libraries that loads on this machine. */
export function loadSecp256k1(): Secp256k1Signer {
  try {
    return loadNative()
  } catch {
    return loadNoble()
  }
}
