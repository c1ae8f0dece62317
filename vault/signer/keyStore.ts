import type { KeyObject } from 'node:crypto'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { readMessage } from '../../core/solana/message.ts'
import { readWireTransaction, sameBytes } from '../../core/solana/wire.ts'
import { isPrintable } from '../../core/text/visibleText.ts'
import { ed25519Key, ed25519PublicKey, ed25519Sign, loadSecp256k1 } from '../keys/curves.ts'
import { derivationPath, derivePrivateKey, parseDerivedKeyId } from '../keys/derivation.ts'
import type { KeyFamily } from '../ports/keyring.ts'
import type { SignKind } from '../ports/signer.ts'

type Key =
  | { readonly family: 'evm'; readonly privateKey: Buffer }
  | { readonly family: 'solana'; readonly key: KeyObject; readonly publicKey: Buffer }

/** The private keys. Only this process has them. */
export class KeyStore {
  readonly #secp256k1 = loadSecp256k1()
  readonly #keys = new Map<string, Key>()
  #seed: Buffer | undefined

  /** Replaces an earlier seed, and with it every derived key. The store keeps a copy of the bytes. */
  setSeed(seed: Uint8Array): void {
    this.#seed?.fill(0)
    for (const [keyId, key] of this.#keys) {
      if (parseDerivedKeyId(keyId) === undefined) continue
      this.#keys.delete(keyId)
      if (key.family === 'evm') key.privateKey.fill(0)
    }
    this.#seed = Buffer.from(seed)
  }

  /** Adds an imported key, with a copy of the bytes. @throws if they are not a private key of the family */
  addImported(keyId: string, family: KeyFamily, privateKey: Uint8Array): void {
    this.#keys.set(keyId, this.#toKey(family, Buffer.from(privateKey)))
  }

  /** The public key in a new buffer: 65 bytes for EVM, 32 for Solana. Undefined for an unknown key. */
  publicKey(keyId: string): Buffer | undefined {
    const key = this.#find(keyId)
    if (key === undefined) return undefined
    return key.family === 'evm' ? this.#secp256k1.publicKey(key.privateKey) : Buffer.from(key.publicKey)
  }

  /** The 32 private bytes in a new buffer, which the caller zeroes. Undefined for an unknown key. */
  privateKey(keyId: string): Buffer | undefined {
    const key = this.#find(keyId)
    if (key?.family !== 'solana') return key && Buffer.from(key.privateKey)
    const der = key.key.export({ format: 'der', type: 'pkcs8' })
    const bytes = Buffer.from(der.subarray(-32))
    der.fill(0)
    return bytes
  }

  sign(keyId: string, kind: SignKind, bytes: Uint8Array): Buffer | 'key-unknown' | 'wrong-kind' {
    const key = this.#find(keyId)
    if (key === undefined) return 'key-unknown'
    if (key.family === 'solana') {
      return isSolanaPreimage(kind, bytes, key.publicKey) ? ed25519Sign(key.key, bytes) : 'wrong-kind'
    }
    const digest = evmDigest(kind, bytes)
    return digest === undefined ? 'wrong-kind' : this.#secp256k1.sign(digest, key.privateKey)
  }

  /** Zeroes the memory that JavaScript can reach. The rest is freed when the process ends. */
  wipe(): void {
    this.#seed?.fill(0)
    this.#seed = undefined
    for (const key of this.#keys.values()) if (key.family === 'evm') key.privateKey.fill(0)
    this.#keys.clear()
  }

  #find(keyId: string): Key | undefined {
    const found = this.#keys.get(keyId)
    if (found !== undefined) return found
    const derived = parseDerivedKeyId(keyId)
    if (derived === undefined || this.#seed === undefined) return undefined
    const { family, index, isTest } = derived
    const key = this.#toKey(
      family,
      derivePrivateKey(family, this.#seed, derivationPath(family, index, isTest)),
    )
    this.#keys.set(keyId, key)
    return key
  }

  /** Takes ownership of the buffer. */
  #toKey(family: KeyFamily, privateKey: Buffer): Key {
    if (family === 'solana') {
      const key = ed25519Key(privateKey)
      privateKey.fill(0)
      return { family, key, publicKey: ed25519PublicKey(key) }
    }
    if (!this.#secp256k1.isPrivateKey(privateKey))
      throw new RangeError('Expected a private key of secp256k1.')
    return { family, privateKey }
  }
}

/**
 * Number of fields of an unsigned transaction by its type (EIP-2930, EIP-1559). The last field is a list, all others are
 * strings.
 */
const typedFields: Readonly<Record<number, number>> = { 1: 8, 2: 9 }
/** Number of fields of a legacy transaction from before EIP-155, which has the fewest. */
const MIN_FIELDS = 6

/**
 * The 32-byte digest that secp256k1 signs for bytes of a kind. Undefined when the bytes are not of that kind. The first byte
 * separates the kinds (EIP-191, EIP-2718). A prefixed message starts with 0x19, a transaction with 1 or 2 or, as an RLP list,
 * with 0xc0 and above. A request of one kind therefore never yields a signature of another kind.
 *
 * The host has already made these checks. This code is independent of the host's and next to the key. So a bug in the host
 * cannot sign blobs (EIP-4844), give the account's code away (EIP-7702), or pass a transaction off as a text.
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
 * Whether Ed25519 may sign bytes of a kind directly. They must be a transaction message (legacy or version 0) with this key as
 * a signer, or a message that is not a transaction. Solana adds no prefix to a message, so only this check separates the two.
 *
 * @param publicKey the 32 bytes of the key that would sign
 */
function isSolanaPreimage(kind: SignKind, bytes: Uint8Array, publicKey: Uint8Array): boolean {
  if (kind === 'solana-transaction') {
    const message = readMessage(bytes)
    return (
      message?.keys.slice(0, message.requiredSignatures).some((key) => sameBytes(key, publicKey)) === true
    )
  }
  if (kind !== 'solana-message' || bytes.length === 0) return false
  // 0x80 to 0xbf mark versions 0 to 63 of a transaction message. A UTF-8 text cannot begin with such a byte.
  if (bytes[0]! >= 0x80 && bytes[0]! < 0xc0) return false
  if (readMessage(bytes) !== undefined) return false
  const wire = readWireTransaction(bytes)
  return wire === undefined || readMessage(wire.message) === undefined
}

/**
 * True for bytes that other software could treat as a transaction, typed data or a hash. Readable text is refused only if it is exactly
 * the bytes of an unsigned transaction.
 */
function isDisguised(bytes: Uint8Array): boolean {
  if (isPrintable(bytes)) return isUnsignedTransaction(bytes)
  const [first = 0, second] = bytes
  if (bytes.length === 32) return true
  if (first === 0x19 && (second === 0x00 || second === 0x01 || second === 0x45)) return true
  const fields = readList(bytes) ?? (first <= 0x7f ? readList(bytes.subarray(1)) : undefined)
  return fields !== undefined && fields.length >= MIN_FIELDS
}

function isUnsignedTransaction(bytes: Uint8Array): boolean {
  const first = bytes[0] ?? 0
  if (first < 0xc0) {
    // Type 3 has blobs, type 4 gives the account's code away, and higher types are unknown.
    const count = typedFields[first]
    const fields = count === undefined ? undefined : readList(bytes.subarray(1))
    return (
      fields?.length === count && fields?.every(({ isList }, i) => isList === (i === count! - 1)) === true
    )
  }
  const fields = readList(bytes)
  const to = fields?.[3]?.bytes
  if (fields === undefined || fields.some(({ isList }) => isList) || (to !== 0 && to !== 20)) return false
  if (fields.length === MIN_FIELDS) return true
  // An EIP-155 transaction has the chain id and two empty fields for the signature.
  return fields.length === 9 && fields[6]!.bytes > 0 && fields[7]!.bytes === 0 && fields[8]!.bytes === 0
}

interface Field {
  readonly isList: boolean
  /** Size of the field's content, in bytes. */
  readonly bytes: number
}

/**
 * The first-level fields of one RLP list that is the whole input. Undefined for any other input, and for a length that is not
 * in its shortest form.
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
    // A length of four bytes is more than any accepted request has.
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
