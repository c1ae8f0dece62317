import { toHex } from 'ox/Rlp'
import { keccak256 } from '../../../../core/evm/keccak.ts'
import type { EvmCall } from '../../../../core/evm/token.ts'
import { type Secp256k1, secp256k1 } from '../check/recoverSigner.ts'
import type { Fees } from './fees.ts'

/** A call as a transaction of EIP-1559 that moves no ether. */
export interface CallTransaction extends Fees, EvmCall {
  readonly chainId: number
  /** Of the account. */
  readonly nonce: number
  readonly gas: number
}

/** The bytes to broadcast and their hash, by which the chain knows them: hex with 0x, lower case. */
export interface SignedTransaction {
  readonly bytes: string
  readonly hash: string
}

/**
 * Signs a transaction: 100 µs, where viem takes 1.5 ms. The same fields and key give the same bytes, whoever does the
 * arithmetic.
 *
 * @see https://eips.ethereum.org/EIPS/eip-1559
 */
export function signTransaction(
  transaction: CallTransaction,
  privateKey: Uint8Array,
  curve: Secp256k1 = secp256k1,
): SignedTransaction {
  const { chainId, nonce, maxPriorityFeePerGas, maxFeePerGas, gas, to, data } = transaction
  const fields =
    number(chainId) +
    number(nonce) +
    number(maxPriorityFeePerGas) +
    number(maxFeePerGas) +
    number(gas) +
    string(to.slice(2)) +
    noEther +
    string(data.slice(2)) +
    noAccessList
  const digest = keccak256(envelope(fields))
  const { signature, recovery } = curve.sign(digest, privateKey)
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)]
  const bytes = envelope(fields + number(recovery) + number(uintOf(r)) + number(uintOf(s)))
  return { bytes: hexOf(bytes), hash: hexOf(keccak256(bytes)) }
}

/** The call in the bytes that {@link signTransaction} made, its address in lower case. @throws for other bytes */
export function callOf(bytes: string): EvmCall {
  if (!bytes.startsWith('0x02')) throw new Error('Expected a transaction of EIP-1559.')
  const [, , , , , to, , data] = toHex(`0x${bytes.slice(4)}`)
  if (typeof to !== 'string' || typeof data !== 'string' || to === '0x')
    throw new Error('Expected a transaction that is a call.')
  return { to: to.toLowerCase(), data }
}

/** What the bytes that {@link signTransaction} made may cost: units of gas, and wei for each; undefined for other bytes. */
export function limitsOf(bytes: string): { readonly gas: bigint; readonly maxFeePerGas: bigint } | undefined {
  if (!bytes.startsWith('0x02')) return undefined
  try {
    const [, , , maxFeePerGas, gas] = toHex(`0x${bytes.slice(4)}`)
    return typeof maxFeePerGas === 'string' && typeof gas === 'string'
      ? { gas: numberIn(gas), maxFeePerGas: numberIn(maxFeePerGas) }
      : undefined
  } catch {
    return undefined
  }
}

/** The address of a key, lower case. @throws for 32 bytes that are no key: zero, or not below the curve's order */
export const addressOfKey = (privateKey: Uint8Array, curve: Secp256k1 = secp256k1): string =>
  hexOf(keccak256(curve.publicKey(privateKey).subarray(1)).subarray(12))

/** RLP's zero has no bytes. */
const numberIn = (bytes: string): bigint => BigInt(bytes === '0x' ? 0 : bytes)

const hexOf = (bytes: Uint8Array): string =>
  `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')}`

const uintOf = (bytes: Uint8Array): bigint => BigInt(hexOf(bytes))

/** RLP of a number: its bytes without leading zeros, none for zero. */
function number(value: number | bigint): string {
  const hex = value.toString(16)
  return string(hex === '0' ? '' : hex.length % 2 === 0 ? hex : `0${hex}`)
}

const noEther = '80'
const noAccessList = 'c0'

/** RLP of a string of bytes, hex without 0x. @see https://ethereum.org/developers/docs/data-structures-and-encoding/rlp */
function string(hex: string): string {
  const isItself = hex.length === 2 && Number.parseInt(hex, 16) < 0x80
  return isItself ? hex : head(0x80, hex.length / 2) + hex
}

/** The type's byte and the RLP list of the fields. */
const envelope = (fields: string): Buffer => Buffer.from(`02${head(0xc0, fields.length / 2)}${fields}`, 'hex')

/** What stands before so many bytes: their number in one byte where they are few, else how long the number is, and it. */
function head(offset: number, length: number): string {
  if (length < 56) return (offset + length).toString(16)
  const digits = length.toString(16)
  const padded = digits.length % 2 === 0 ? digits : `0${digits}`
  return (offset + 55 + padded.length / 2).toString(16) + padded
}
