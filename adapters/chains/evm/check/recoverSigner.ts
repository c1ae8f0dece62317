import { createRequire } from 'node:module'
import { keccak256 } from '../../../../core/evm/keccak.ts'

const require = createRequire(import.meta.url)

/** Half the order of secp256k1: a signature with a larger s has a twin, and tokens refuse it (EIP-2, EIP-1271 text). */
const halfOrder = Buffer.from('7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0', 'hex')
const signatureChars = 2 + 65 * 2

/** v as a token takes it, 27 or 28, in a signature of 65 bytes that has 0 or 1; any other signature as it is. @param signature lower case */
export function withEthereumV(signature: string): string {
  if (signature.length !== signatureChars) return signature
  if (signature.endsWith('00')) return `${signature.slice(0, -2)}1b`
  return signature.endsWith('01') ? `${signature.slice(0, -2)}1c` : signature
}

/**
 * Whose key made this signature: the lower-case address, or undefined when it is not a plain 65-byte signature: v is 27 or 28, or 0 or
 * 1 as hardware and MPC wallets write it, and s in the lower half. Anything else may still be a contract wallet's. A token takes 27 and
 * 28 only (see withEthereumV).
 *
 * It must stay a recovery. A check against a known public key is faster, but ignores v, which the token does not.
 *
 * @param signature 0x and hex digits in lower case
 */
export function recoverSigner(
  digest: Uint8Array,
  signature: string,
  curve: Secp256k1 = secp256k1,
): string | undefined {
  if (signature.length !== signatureChars) return undefined
  const bytes = Buffer.from(signature.slice(2), 'hex')
  const v = bytes[64]!
  const recovery = v < 27 ? v : v - 27
  if (recovery > 1) return undefined
  if (bytes.compare(halfOrder, 0, 32, 32, 64) > 0) return undefined
  const key = curve.recover(bytes.subarray(0, 64), recovery, digest)
  if (key === undefined) return undefined
  const hash = keccak256(key.subarray(1))
  return `0x${Buffer.from(hash.buffer, hash.byteOffset + 12, 20).toString('hex')}`
}

/** Arithmetic on secp256k1, whoever does it. Signing is deterministic (RFC 6979), so all give the same bytes. */
export interface Secp256k1 {
  readonly name: 'libsecp256k1' | 'noble'
  /**
   * The uncompressed public key (65 bytes, first is 4) whose signature this is, or undefined when there is none.
   * Takes s in both halves of the order; the caller refuses the upper one.
   *
   * @param signature 64 bytes: r, s
   * @param recovery  0 or 1
   */
  recover(signature: Uint8Array, recovery: number, digest: Uint8Array): Uint8Array | undefined
  /** 64 bytes: r, and s in the lower half of the order (EIP-2). @param digest 32 bytes */
  sign(
    digest: Uint8Array,
    privateKey: Uint8Array,
  ): { readonly signature: Uint8Array; readonly recovery: number }
  /** Uncompressed, 65 bytes, the first is 4. @throws for 32 bytes that are no key: zero, or not below the order */
  publicKey(privateKey: Uint8Array): Uint8Array
}

/** libsecp256k1 by the prebuilt addon of npm `secp256k1`: 58 µs a recovery. @throws when the addon does not load here. */
export function loadNativeSecp256k1(): Secp256k1 {
  // `bindings` and not the package's front door: that one falls back to elliptic, which is slow and unmaintained.
  const native = require('secp256k1/bindings.js') as {
    ecdsaRecover(
      sig: Uint8Array,
      recovery: number,
      digest: Uint8Array,
      compressed: boolean,
      output: Uint8Array,
    ): Uint8Array
    ecdsaSign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
    publicKeyCreate(key: Uint8Array, compressed: boolean): Uint8Array
  }
  return {
    name: 'libsecp256k1',
    recover(signature, recovery, digest) {
      try {
        // From node's pool: an array of 65 bytes would be a memory of its own, which the collector keeps a list of.
        return native.ecdsaRecover(signature, recovery, digest, false, Buffer.allocUnsafe(65))
      } catch {
        return undefined
      }
    },
    sign(digest, privateKey) {
      const { signature, recid } = native.ecdsaSign(digest, privateKey)
      return { signature, recovery: recid }
    },
    publicKey: (privateKey) => native.publicKeyCreate(privateKey, false),
  }
}

/** The audited JavaScript of @noble/curves: needs no addon, takes about 1.2 ms a recovery. */
export function loadNobleSecp256k1(): Secp256k1 {
  const { secp256k1: noble } = require('@noble/curves/secp256k1') as typeof import('@noble/curves/secp256k1')
  return {
    name: 'noble',
    recover(signature, recovery, digest) {
      try {
        const parsed = noble.Signature.fromCompact(signature).addRecoveryBit(recovery)
        return parsed.recoverPublicKey(digest).toRawBytes(false)
      } catch {
        return undefined
      }
    },
    sign(digest, privateKey) {
      const signed = noble.sign(digest, privateKey, { lowS: true, prehash: false })
      return { signature: signed.toCompactRawBytes(), recovery: signed.recovery }
    },
    publicKey: (privateKey) => noble.getPublicKey(privateKey, false),
  }
}

/** The faster of the two that loads on this machine. */
export const secp256k1: Secp256k1 = loadFastest()

function loadFastest(): Secp256k1 {
  try {
    return loadNativeSecp256k1()
  } catch {
    return loadNobleSecp256k1()
  }
}
