import { createRequire } from 'node:module'
import { secp256k1 } from '@noble/curves/secp256k1'

const require = createRequire(import.meta.url)

/** The 64 bytes of the uncompressed public key without its first, or undefined when there is none for this signature. */
type RecoverKey = (signature: Uint8Array, recovery: 0 | 1, digest: Uint8Array) => Uint8Array | undefined

/**
 * Recovers the key that made a signature. libsecp256k1 where its prebuilt addon loads (about 40 µs), else noble (about 1 ms,
 * which is more than all the rest of a signing request).
 */
export const recoverKey: RecoverKey = load()

function load(): RecoverKey {
  try {
    // `bindings` and not the package's front door: that one falls back to elliptic, which is slow and unmaintained.
    const native = require('secp256k1/bindings.js') as {
      ecdsaRecover(
        signature: Uint8Array,
        recovery: number,
        digest: Uint8Array,
        compressed: boolean,
      ): Uint8Array
    }
    return (signature, recovery, digest) => {
      try {
        return native.ecdsaRecover(signature, recovery, digest, false).subarray(1)
      } catch {
        return undefined
      }
    }
  } catch {
    return withNoble
  }
}

function withNoble(...[signature, recovery, digest]: Parameters<RecoverKey>): Uint8Array | undefined {
  try {
    const parsed = secp256k1.Signature.fromCompact(signature).addRecoveryBit(recovery)
    return parsed.recoverPublicKey(digest).toRawBytes(false).subarray(1)
  } catch {
    return undefined
  }
}
