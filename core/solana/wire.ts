/** Largest transaction that a cluster takes, in bytes: one IPv6 packet without its headers. */
export const MAX_TRANSACTION_BYTES = 1232

/** Bytes of one Ed25519 signature. */
export const signatureBytes = 64

/** A transaction as it came over the wire, split into signatures and the message they sign. Views, not copies. */
export interface WireTransaction {
  readonly bytes: Uint8Array
  /** One slot of 64 bytes for every signer, in the order of the message's keys. */
  readonly signatures: readonly Uint8Array[]
  readonly message: Uint8Array
}

/** A length in the compact form, and where the next byte is; undefined for anything but its one shortest form. */
export interface CompactLength {
  readonly value: number
  readonly next: number
}

/**
 * Reads a compact-u16: 7 bits a byte, lowest first, at most 3 bytes. Longer spellings of a value are refused, as the
 * cluster does (short_vec's alias check): one transaction has one spelling, so one payment has one key.
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
 * Splits a serialised transaction into signatures and message. Whether the message fits them is the message reader's
 * work.
 *
 * @returns undefined when the bytes are none: too long, no signature, or cut off.
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
