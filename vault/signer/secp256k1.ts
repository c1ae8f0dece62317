import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** Signing on secp256k1, whoever does the arithmetic. Both are deterministic (RFC 6979), so both give the same bytes. */
export interface Secp256k1Signer {
  readonly name: 'libsecp256k1' | 'noble'
  /** 65 bytes r, s, recovery; s in the lower half of the order (EIP-2). @param digest 32 bytes */
  sign(digest: Uint8Array, privateKey: Uint8Array): Buffer
  /** 65 bytes, the first is 4. */
  publicKey(privateKey: Uint8Array): Buffer
  /** Whether these 32 bytes are a private key: not zero, below the order. */
  isPrivateKey(bytes: Uint8Array): boolean
}

/** libsecp256k1, constant in time, by the prebuilt addon of npm `secp256k1`. @throws when the addon does not load here. */
export function loadNative(): Secp256k1Signer {
  // `bindings` and not the package's front door: that one falls back to elliptic, which is slow and unmaintained.
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

/** The audited JavaScript of @noble/curves: needs no addon, slower, and constant in time only as far as JavaScript goes. */
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

/** The faster of the two that loads on this machine. */
export function loadSecp256k1(): Secp256k1Signer {
  try {
    return loadNative()
  } catch {
    return loadNoble()
  }
}
