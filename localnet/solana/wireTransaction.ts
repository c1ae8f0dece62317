import { createHash, createPublicKey, verify } from 'node:crypto'
import { base58 } from '@scure/base'
import { type VersionedMessage, VersionedTransaction } from '@solana/web3.js'

/** Largest serialised transaction in bytes: one IPv6 packet. @see https://solana.com/docs/core/transactions */
export const MAX_TRANSACTION_BYTES = 1232

const NO_SIGNATURE = new Uint8Array(64)
/** DER header of an Ed25519 public key (RFC 8410); the 32 key bytes follow. */
const ED25519_SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** A transaction as it came over the wire. */
export type WireTransaction = {
  bytes: Uint8Array
  message: VersionedMessage
  messageBytes: Uint8Array
  /** SHA-256 of the message. Two transactions with one message are one payment, whatever their signatures. */
  messageHash: string
  version: 'legacy' | 0
  /** Base58 of the fee payer's signature: the transaction's id. */
  signature: string
  signatures: Uint8Array[]
  /** Base58, without the ones that come from lookup tables. */
  staticKeys: string[]
  recentBlockhash: string
}

/**
 * Reads a serialised transaction.
 *
 * @throws {Error} with the reader's words when the bytes are no transaction.
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

/** Whether every signature slot holds a signature of its account over the message. */
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

/** How many bytes the signature count takes (compact-u16); one for any count that fits into a packet. */
function shortVecLength(bytes: Uint8Array): number {
  return (bytes[0] ?? 0) < 0x80 ? 1 : 2
}
