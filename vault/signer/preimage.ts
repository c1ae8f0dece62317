import { keccak_256 } from '@noble/hashes/sha3.js'
import { sameBytes } from '../../core/solana/bytes.ts'
import { readMessage } from '../../core/solana/message.ts'
import { readWireTransaction } from '../../core/solana/wire.ts'
import { isPrintable } from '../../core/text/visibleText.ts'
import type { SignKind } from '../ports/signer.ts'

/** Fields of an unsigned transaction by its type (EIP-2930, EIP-1559); the last is a list, every other one a string. */
const typedFields: Readonly<Record<number, number>> = { 1: 8, 2: 9 }
/** No transaction has fewer fields than a legacy one from before EIP-155. */
const fewestFields = 6

/**
 * The 32-byte digest that secp256k1 signs for bytes of a kind, or undefined when they are not of it. What keeps the kinds
 * apart is their first byte (EIP-191, EIP-2718): a message begins with 0x19 once prefixed, a transaction with 1 or 2 or,
 * as an RLP list, 0xc0 and above. So a request of one kind never yields a signature of another.
 *
 * The host decodes and refuses all of this, and more, before; here it is judged once more, in other code and beside the
 * key, so that a fault over there does not sign blobs (EIP-4844), give the account's code away (EIP-7702), or pass a
 * transaction off as a text.
 */
export function evmDigest(kind: SignKind, bytes: Uint8Array): Uint8Array | undefined {
  if (kind === 'evm-message') {
    if (isDisguised(bytes)) return undefined
    const prefix = Buffer.from(`\x19Ethereum Signed Message:\n${bytes.length}`, 'latin1')
    return keccak_256(Buffer.concat([prefix, bytes]))
  }
  if (kind === 'evm-typed-data') {
    return bytes.length === 66 && bytes[0] === 0x19 && bytes[1] === 0x01 ? keccak_256(bytes) : undefined
  }
  return kind === 'evm-transaction' && isUnsignedTransaction(bytes) ? keccak_256(bytes) : undefined
}

/**
 * Whether Ed25519 may sign bytes of a kind as they are: a transaction message (legacy or version 0) that this key is a
 * signer of, or a message that is none. Solana puts nothing before a message, so that nothing else keeps the two apart.
 *
 * @param publicKey 32 bytes, of the key that would sign
 */
export function isSolanaPreimage(kind: SignKind, bytes: Uint8Array, publicKey: Uint8Array): boolean {
  if (kind === 'solana-transaction') {
    const message = readMessage(bytes)
    return (
      message?.keys.slice(0, message.requiredSignatures).some((key) => sameBytes(key, publicKey)) === true
    )
  }
  if (kind !== 'solana-message' || bytes.length === 0) return false
  // 0x80 to 0xbf mark versions 0 to 63 of a transaction's message and begin no text in UTF-8.
  if (bytes[0]! >= 0x80 && bytes[0]! < 0xc0) return false
  if (readMessage(bytes) !== undefined) return false
  const wire = readWireTransaction(bytes)
  return wire === undefined || readMessage(wire.message) === undefined
}

/** True for what other software could take for a transaction, typed data or a hash: a text that a person can read is none of them. */
function isDisguised(bytes: Uint8Array): boolean {
  if (isPrintable(bytes)) return isUnsignedTransaction(bytes)
  const [first = 0, second] = bytes
  if (bytes.length === 32) return true
  if (first === 0x19 && (second === 0x00 || second === 0x01 || second === 0x45)) return true
  const fields = readList(bytes) ?? (first <= 0x7f ? readList(bytes.subarray(1)) : undefined)
  return fields !== undefined && fields.length >= fewestFields
}

function isUnsignedTransaction(bytes: Uint8Array): boolean {
  const first = bytes[0] ?? 0
  if (first < 0xc0) {
    // Type 3 carries blobs, type 4 gives the account's code away, above them nothing is known.
    const count = typedFields[first]
    const fields = count === undefined ? undefined : readList(bytes.subarray(1))
    return (
      fields?.length === count && fields?.every(({ isList }, i) => isList === (i === count! - 1)) === true
    )
  }
  const fields = readList(bytes)
  const to = fields?.[3]?.bytes
  if (fields === undefined || fields.some(({ isList }) => isList) || (to !== 0 && to !== 20)) return false
  if (fields.length === fewestFields) return true
  // EIP-155: the chain's id, and two empty fields where the signature will be.
  return fields.length === 9 && fields[6]!.bytes > 0 && fields[7]!.bytes === 0 && fields[8]!.bytes === 0
}

interface Field {
  readonly isList: boolean
  /** Of its content. */
  readonly bytes: number
}

/**
 * What one RLP list that is the whole input holds at its first level; undefined for anything else, and for a length
 * that is not in its shortest form.
 *
 * @see https://ethereum.org/en/developers/docs/data-structures-and-encoding/rlp/
 */
function readList(bytes: Uint8Array): Field[] | undefined {
  const outer = readSpan(bytes, 0)
  if (outer === undefined || !outer.isList || outer.end !== bytes.length) return undefined
  const fields: Field[] = []
  for (let at = outer.start; at < outer.end; ) {
    const span = readSpan(bytes, at)
    if (span === undefined) return undefined
    fields.push({ isList: span.isList, bytes: span.end - span.start })
    at = span.end
  }
  return fields
}

function readSpan(bytes: Uint8Array, at: number) {
  const first = bytes[at]
  if (first === undefined) return undefined
  if (first < 0x80) return { isList: false, start: at, end: at + 1 }
  const isList = first >= 0xc0
  const short = first - (isList ? 0xc0 : 0x80)
  let start = at + 1
  let length = short
  if (short > 55) {
    // Four bytes of length are more than any request that is read.
    const lengthBytes = short - 55
    if (lengthBytes > 4 || bytes[start] === 0) return undefined
    length = 0
    for (const end = start + lengthBytes; start < end; start++) length = length * 256 + (bytes[start] ?? 0)
    if (length <= 55) return undefined
  }
  const end = start + length
  if (end > bytes.length) return undefined
  const isSpeltOtherwise = !isList && length === 1 && bytes[start]! < 0x80
  return isSpeltOtherwise ? undefined : { isList, start, end }
}
