import { createRequire } from 'node:module'
import { secp256k1 } from '@noble/curves/secp256k1'
import { checksumAddress, keccak256 } from '../../../core/evm/hex.ts'
import type { Assembled } from '../../effects/chainPlugin.ts'
import type { Decoded } from '../../effects/effect.ts'
import { type EvmTransaction, readTransaction, writeTransaction } from './transaction.ts'

const hex = (bytes: Uint8Array): `0x${string}` => `0x${Buffer.from(bytes).toString('hex')}`
const quantity = (value: bigint | number): string => `0x${value.toString(16)}`

/**
 * Adds a signature to a decoded request. The address that is recovered from the signature must be the vault's. So no signature
 * by another key, or over other bytes than the owner saw, leaves the vault.
 *
 * @param signature 65 bytes: r, s in the lower half (EIP-2), 0 or 1
 * @returns `signature` as 65 bytes of hex whose last byte is 27 or 28, as wallets return it
 * @throws {TypeError} when the signature is not the vault's over these bytes
 */
export function assemble(decoded: Decoded, signature: Uint8Array): Assembled {
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32, 64)].map((half) => BigInt(hex(half)))
  const yParity = signature[64]
  const digest = keccak256(preimageOf(decoded))
  if (
    signature.length !== 65 ||
    (yParity !== 0 && yParity !== 1) ||
    signerOf(signature, digest) !== decoded.from
  )
    throw new TypeError('Expected a signature of 65 bytes by the account over the bytes that were shown.')
  const plain = hex(Buffer.concat([signature.subarray(0, 64), Uint8Array.of(27 + yParity)]))
  if (decoded.signKind !== 'evm-transaction') return { signedTx: null, signature: plain }
  const read = readTransaction(decoded.frozenBytes)
  if (!read.ok) throw new TypeError('Expected an unsigned transaction in frozenBytes.')
  const { transaction } = read
  const signed = writeTransaction(transaction, { r: r!, s: s!, yParity })
  if (!signed.ok) throw new TypeError(signed.message)
  const { hex: raw } = signed
  if (decoded.encoding === 'hex') return { signedTx: raw, signature: plain }
  const isLegacy = transaction.type === 'legacy'
  const v = isLegacy ? BigInt(transaction.chainId!) * 2n + 35n + BigInt(yParity) : BigInt(yParity)
  const json = {
    ...jsonOf(transaction),
    r: quantity(r!),
    s: quantity(s!),
    v: quantity(v),
    ...(isLegacy ? {} : { yParity: quantity(yParity) }),
    hash: hex(keccak256(Buffer.from(raw.slice(2), 'hex'))),
    raw,
  }
  return { signedTx: JSON.stringify(json), signature: plain }
}

/** The bytes that the signer hashes. Messages get the EIP-191 prefix. */
function preimageOf({ signKind, signingBytes }: Decoded): Uint8Array {
  if (signKind !== 'evm-message') return signingBytes
  const prefix = Buffer.from(`\x19Ethereum Signed Message:\n${signingBytes.length}`, 'latin1')
  return Buffer.concat([prefix, signingBytes])
}

/** Half of the group order. For each `s` above it, there is an equivalent signature with an `s` below it (EIP-2). */
const halfOrder = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n

function signerOf(signature: Uint8Array, digest: Uint8Array): string | undefined {
  if (BigInt(hex(signature.subarray(32, 64))) > halfOrder) return undefined
  const key = recoverKey(signature.subarray(0, 64), signature[64] as 0 | 1, digest)
  return key === undefined ? undefined : checksumAddress(hex(keccak256(key).subarray(12)))
}

function jsonOf(transaction: EvmTransaction): Record<string, unknown> {
  const { type, chainId, nonce = 0n, gas = 0n, to = null, value = 0n, data = '0x' } = transaction
  const fees =
    type === 'eip1559'
      ? {
          maxPriorityFeePerGas: quantity(transaction.maxPriorityFeePerGas ?? 0n),
          maxFeePerGas: quantity(transaction.maxFeePerGas ?? 0n),
        }
      : { gasPrice: quantity(transaction.gasPrice ?? 0n) }
  return {
    type: { legacy: '0x0', eip2930: '0x1', eip1559: '0x2' }[type],
    chainId: quantity(chainId!),
    nonce: quantity(nonce),
    ...fees,
    gas: quantity(gas),
    to,
    value: quantity(value),
    input: data,
    ...(type === 'legacy' ? {} : { accessList: transaction.accessList ?? [] }),
  }
}

const require = createRequire(import.meta.url)

/** Returns the 64 bytes of the uncompressed public key without its first byte. Undefined if the signature has no key. */
type RecoverKey = (signature: Uint8Array, recovery: 0 | 1, digest: Uint8Array) => Uint8Array | undefined

/**
 * Recovers the key that made a signature. It uses libsecp256k1 if its prebuilt addon loads (about 40 µs), otherwise noble
 * (about 1 ms, which is more than the rest of a signing request).
 */
const recoverKey: RecoverKey = load()

function load(): RecoverKey {
  try {
    // `bindings` is imported instead of the package, because the package falls back to elliptic, which is slow and
    // unmaintained.
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
