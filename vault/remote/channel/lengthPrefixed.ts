/**
 * Joins byte strings so that no two lists give the same bytes: each part stands behind its length, four bytes, big
 * endian. Text is UTF-8. What is signed or authenticated goes through here, never through plain joining.
 *
 * @example
 * lengthPrefixed('request', requestId, uint64(7)) // differs from every other triple
 */
export function lengthPrefixed(...parts: readonly (string | Uint8Array)[]): Buffer {
  const pieces: Uint8Array[] = []
  for (const part of parts) {
    const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : part
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.byteLength)
    pieces.push(length, bytes)
  }
  return Buffer.concat(pieces)
}

/** Eight bytes, big endian. @throws RangeError for what is no integer from 0 to 2^53 - 1. */
export function uint64(value: number): Buffer {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new RangeError('expected an integer from 0 to 2^53 - 1')
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(value))
  return bytes
}

/** Reads what {@link uint64} wrote; undefined when it is above 2^53 - 1. */
export function readUint64(bytes: Buffer, offset: number): number | undefined {
  const value = bytes.readBigUInt64BE(offset)
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : undefined
}
