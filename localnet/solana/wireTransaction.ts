import { createHash, createPublicKey, verify } from 'node:crypto'
import { base58 } from '@scure/base'
import { type VersionedMessage, VersionedTransaction } from '@solana/web3.js'
import { COMPUTE_BUDGET_PROGRAM } from './addresses.ts'

const LAMPORTS_PER_SIGNATURE = 5_000n
const MICRO_LAMPORTS = 1_000_000n
const SET_COMPUTE_UNIT_LIMIT = 2
const SET_COMPUTE_UNIT_PRICE = 3
const DEFAULT_UNITS_PER_INSTRUCTION = 200_000n
const DEFAULT_UNITS_PER_BUILTIN_INSTRUCTION = 3_000n
const MAX_UNITS = 1_400_000n
/** Programs that are part of the validator, and get the small default compute limit (SIMD-0170). */
const BUILTINS = new Set([COMPUTE_BUDGET_PROGRAM, '11111111111111111111111111111111'])

/**
 * The fee of a message in lamports, for its signatures and for limit × price, rounded up. @see https://solana.com/docs/core/fees
 */
export function feeOf(message: VersionedMessage): bigint {
  const keys = message.staticAccountKeys.map((key) => key.toBase58())
  let price = 0n
  let limit: bigint | undefined
  let defaultLimit = 0n
  for (const instruction of message.compiledInstructions) {
    const program = keys[instruction.programIdIndex] ?? ''
    defaultLimit += BUILTINS.has(program)
      ? DEFAULT_UNITS_PER_BUILTIN_INSTRUCTION
      : DEFAULT_UNITS_PER_INSTRUCTION
    if (program !== COMPUTE_BUDGET_PROGRAM) continue
    const data = Buffer.from(instruction.data)
    if (data[0] === SET_COMPUTE_UNIT_LIMIT && data.length >= 5) limit = BigInt(data.readUInt32LE(1))
    if (data[0] === SET_COMPUTE_UNIT_PRICE && data.length >= 9) price = data.readBigUInt64LE(1)
  }
  const asked = limit ?? defaultLimit
  const units = asked < MAX_UNITS ? asked : MAX_UNITS
  const priority = (price * units + MICRO_LAMPORTS - 1n) / MICRO_LAMPORTS
  return BigInt(message.header.numRequiredSignatures) * LAMPORTS_PER_SIGNATURE + priority
}

/** Maximum size of a serialized transaction, in bytes, which is one IPv6 packet. @see https://solana.com/docs/core/transactions */
export const MAX_TRANSACTION_BYTES = 1232

const NO_SIGNATURE = new Uint8Array(64)
/** DER header of an Ed25519 public key (RFC 8410). The 32 key bytes follow it. */
const ED25519_SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** A transaction as received. */
export type WireTransaction = {
  bytes: Uint8Array
  message: VersionedMessage
  messageBytes: Uint8Array
  /** SHA-256 of the message. Two transactions with the same message are one payment, even if their signatures differ. */
  messageHash: string
  version: 'legacy' | 0
  /** Base58 of the fee payer's signature, which is the transaction's id. */
  signature: string
  signatures: Uint8Array[]
  /** Base58 keys of the message, without keys from lookup tables. */
  staticKeys: string[]
  recentBlockhash: string
}

/**
 * Reads a serialized transaction.
 *
 * @throws {Error} with the parser's message if the bytes are not a transaction
 */
export function readTransaction(bytes: Uint8Array): WireTransaction {
  const { message, signatures } = VersionedTransaction.deserialize(bytes)
  const { version } = message
  if (version !== 'legacy' && version !== 0) throw new Error(`version ${version} is not supported here`)
  const required = message.header.numRequiredSignatures
  if (signatures.length !== required) {
    throw new Error(`expected ${required} signatures, found ${signatures.length}`)
  }
  const messageBytes = bytes.subarray(shortVecLength(bytes) + 64 * signatures.length)
  return {
    bytes,
    message,
    messageBytes,
    messageHash: createHash('sha256').update(messageBytes).digest('hex'),
    version,
    signature: base58.encode(signatures[0] ?? NO_SIGNATURE),
    signatures,
    staticKeys: message.staticAccountKeys.map((key) => key.toBase58()),
    recentBlockhash: message.recentBlockhash,
  }
}

/** Whether every signature slot has a signature of its account over the message. */
export function isFullySigned(transaction: WireTransaction): boolean {
  return transaction.signatures.every((signature, index) => {
    const publicKey = transaction.message.staticAccountKeys[index]?.toBytes()
    if (publicKey === undefined) return false
    const key = createPublicKey({
      key: Buffer.concat([ED25519_SPKI_PREFIX, publicKey]),
      format: 'der',
      type: 'spki',
    })
    return verify(null, transaction.messageBytes, key, signature)
  })
}

/** Number of bytes of the signature count (compact-u16). Any count that fits into a packet takes one byte. */
function shortVecLength(bytes: Uint8Array): number {
  return (bytes[0] ?? 0) < 0x80 ? 1 : 2
}
