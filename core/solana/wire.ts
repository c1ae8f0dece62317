/** Largest transaction that a cluster accepts, in bytes, which is one IPv6 packet without its headers. */
export const MAX_TRANSACTION_BYTES = 1232

/** Bytes of one Ed25519 signature. */
export const signatureBytes = 64

/** A transaction as received, split into signatures and the message that they sign. Both are views, not copies. */
export interface WireTransaction {
  readonly bytes: Uint8Array
  /** A slot of 64 bytes for every signer, in the order of the message's keys. */
  readonly signatures: readonly Uint8Array[]
  readonly message: Uint8Array
}

/** A length in the compact form, and the index of the byte after it. */
interface CompactLength {
  readonly value: number
  readonly next: number
}

/**
 * Reads a compact-u16, which has 7 bits per byte, lowest first, and at most 3 bytes. Longer spellings of a value are refused, as
 * the cluster does (short_vec's alias check), so that each transaction has one spelling and one payment has one key. Undefined if
 * the length is not in its shortest form.
 */
export function readCompactLength(bytes: Uint8Array, at: number): CompactLength | undefined {
  const first = bytes[at]
  if (first === undefined) return undefined
  if (first < 0x80) return { value: first, next: at + 1 }
  const second = bytes[at + 1]
  if (second === undefined || second === 0) return undefined
  if (second < 0x80) return { value: (first & 0x7f) | (second << 7), next: at + 2 }
  const third = bytes[at + 2]
  if (third === undefined || third === 0 || third > 3) return undefined
  return { value: (first & 0x7f) | ((second & 0x7f) << 7) | (third << 14), next: at + 3 }
}

/**
 * Splits a serialized transaction into signatures and message. The message reader checks whether they fit together.
 *
 * @returns undefined for bytes that are too long, have no signature or are cut off
 */
export function readWireTransaction(bytes: Uint8Array): WireTransaction | undefined {
  if (bytes.length > MAX_TRANSACTION_BYTES) return undefined
  const count = readCompactLength(bytes, 0)
  if (count === undefined || count.value === 0) return undefined
  const messageAt = count.next + count.value * signatureBytes
  if (messageAt >= bytes.length) return undefined
  const signatures: Uint8Array[] = []
  for (let at = count.next; at < messageAt; at += signatureBytes) {
    signatures.push(bytes.subarray(at, at + signatureBytes))
  }
  return { bytes, signatures, message: bytes.subarray(messageAt) }
}

/** Whether two byte strings are equal. Only for public values, because it stops at the first difference. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

export function readU32(bytes: Uint8Array, at: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(at, true)
}

export function readU64(bytes: Uint8Array, at: number): bigint {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getBigUint64(at, true)
}
