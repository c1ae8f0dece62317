/**
 * Decodes base64 in its one canonical form: standard alphabet, full padding, zero trailing bits, no whitespace
 * (RFC 4648, sections 3 and 4). Every other spelling of the same bytes is refused, because a payment that can be written
 * in two ways can pass a check in one of them and be stored under the other.
 *
 * @param maxBytes most decoded bytes that are accepted; longer text is refused before it is decoded
 * @returns the bytes, or undefined when the text is not canonical base64 or too long; the empty text is zero bytes
 *
 * @example decodeStrictBase64('AQI=', 16) // Uint8Array [1, 2]
 */
export function decodeStrictBase64(text: string, maxBytes: number): Uint8Array | undefined {
  if (text.length % 4 !== 0 || text.length > Math.ceil(maxBytes / 3) * 4) return undefined
  const bytes = Buffer.from(text, 'base64')
  // Node's decoder skips what it does not know; writing the bytes again shows whether anything was skipped.
  if (bytes.length > maxBytes || bytes.toString('base64') !== text) return undefined
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
}
