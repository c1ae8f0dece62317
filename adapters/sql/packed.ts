/** A text, or what a store with room to save keeps of it. */
export type Packed = string | Uint8Array

const isHex = /^0x(?:[0-9a-f]{64}|[0-9a-f]{40})$/
const isCall = /^[0-9a-f]{64}(?::[\w-]{22})?$/
const [hashBytes, hashChars, markChars] = [32, 64, 22]

/**
 * Texts of a sale that SQLite keeps as bytes, half as long: hashes, nonces and addresses of EVM chains, and what was bought by whom.
 * Every text comes back as it was. One in another form (upper case, base58, what a test calls a hash) stays a text.
 */
export const packed = {
  /** Bytes of `0x` and 40 or 64 digits in lower case. */
  hex: (text: string): Packed => (isHex.test(text) ? Buffer.from(text.slice(2), 'hex') : text),
  hexText: (kept: Packed): string => (typeof kept === 'string' ? kept : `0x${hexOf(kept)}`),

  /** Bytes of a SHA-256 in 64 digits, and of its caller's mark after a colon, 22 characters of base64url. */
  call: (text: string): Packed => {
    if (!isCall.test(text)) return text
    const hash = Buffer.from(text.slice(0, hashChars), 'hex')
    // With one more character all bits of the 22 are in whole bytes.
    return text.length === hashChars
      ? hash
      : Buffer.concat([hash, Buffer.from(`${text.slice(hashChars + 1)}A`, 'base64url')])
  },
  callText: (kept: Packed): string => {
    if (typeof kept === 'string') return kept
    const hash = hexOf(kept.subarray(0, hashBytes))
    if (kept.length === hashBytes) return hash
    return `${hash}:${Buffer.from(kept.subarray(hashBytes)).toString('base64url').slice(0, markChars)}`
  },
}

const hexOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')
