import { createRequire } from 'node:module'
import { secp256k1 } from '@noble/curves/secp256k1'
import { checksumAddress } from '../../../core/evm/address.ts'
import { keccak256 } from '../../../core/evm/keccak.ts'
import type { Assembled } from '../../effects/chainPlugin.ts'
import type { Decoded } from '../../effects/decoded.ts'
import { type EvmTransaction, readTransaction, writeTransaction } from './transaction.ts'

const hex = (bytes: Uint8Array): `0x${string}` => `0x${Buffer.from(bytes).toString('hex')}`
const quantity = (value: bigint): string => `0x${value.toString(16)}`

/**
 * Puts a signature to what was decoded. The signer's address is recovered from it and must be ours, so that a signature by
 * another key, or over other bytes than those shown, never leaves.
 *
 * @param signature 65 bytes: r, s in the lower half (EIP-2), 0 or 1
 * @returns `signature` as 65 bytes of hex whose last is 27 or 28, which is what wallets give
 * @throws {TypeError} when it is not our signature over these bytes
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
  const raw = writeTransaction(read.transaction, { r: r!, s: s!, yParity })
  if (decoded.encoding === 'hex') return { signedTx: hex(raw), signature: plain }
  const v =
    read.transaction.type === 'legacy'
      ? read.transaction.chainId! * 2n + 35n + BigInt(yParity)
      : BigInt(yParity)
  const json = {
    ...jsonOf(read.transaction),
    r: quantity(r!),
    s: quantity(s!),
    v: quantity(v),
    ...(read.transaction.type === 'legacy' ? {} : { yParity: quantity(BigInt(yParity)) }),
    hash: hex(keccak256(raw)),
    raw: hex(raw),
  }
  return { signedTx: JSON.stringify(json), signature: plain }
}

/** What the signer hashes: for messages it puts the prefix of EIP-191 before them. */
function preimageOf({ signKind, signingBytes }: Decoded): Uint8Array {
  if (signKind !== 'evm-message') return signingBytes
  const prefix = Buffer.from(`\x19Ethereum Signed Message:\n${signingBytes.length}`, 'latin1')
  return Buffer.concat([prefix, signingBytes])
}

/** Half of the group's order: above it, the same signature exists once more with another `s` (EIP-2). */
const halfOrder = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n

function signerOf(signature: Uint8Array, digest: Uint8Array): string | undefined {
  if (BigInt(hex(signature.subarray(32, 64))) > halfOrder) return undefined
  const key = recoverKey(signature.subarray(0, 64), signature[64] as 0 | 1, digest)
  return key === undefined ? undefined : checksumAddress(hex(keccak256(key).subarray(12)))
}

function jsonOf(transaction: EvmTransaction): Record<string, unknown> {
  const { type, chainId, nonce, gasLimit, maxFeePerGas, maxPriorityFeePerGas, to, value, data } = transaction
  const fees =
    type === 'eip1559'
      ? { maxPriorityFeePerGas: quantity(maxPriorityFeePerGas!), maxFeePerGas: quantity(maxFeePerGas) }
      : { gasPrice: quantity(maxFeePerGas) }
  const list = transaction.accessList.map(({ address, storageKeys }) => ({
    address: hex(address),
    storageKeys: storageKeys.map(hex),
  }))
  return {
    type: { legacy: '0x0', eip2930: '0x1', eip1559: '0x2' }[type],
    chainId: quantity(chainId!),
    nonce: quantity(nonce),
    ...fees,
    gas: quantity(gasLimit),
    to: to === undefined ? null : hex(to),
    value: quantity(value),
    input: hex(data),
    ...(type === 'legacy' ? {} : { accessList: list }),
  }
}

const require = createRequire(import.meta.url)

/** The 64 bytes of the uncompressed public key without its first, or undefined when there is none for this signature. */
type RecoverKey = (signature: Uint8Array, recovery: 0 | 1, digest: Uint8Array) => Uint8Array | undefined

/**
 * Recovers the key that made a signature. libsecp256k1 where its prebuilt addon loads (about 40 µs), else noble (about 1 ms,
 * which is more than all the rest of a signing request).
 */
const recoverKey: RecoverKey = load()

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
