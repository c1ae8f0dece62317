import { hash } from 'node:crypto'

/** Bytes that SHA-256 takes in at a time, and that an HMAC key is filled up to. */
const blockBytes = 64
const hashBytes = 32

/**
 * HMAC-SHA256 (RFC 2104) of UTF-8 text under one key. Each of its two hashes is made in one go, behind a block that is made
 * once a key: the object of `createHmac` costs two to three times as much, and every sale needs one (bench/paid.ts).
 *
 * @param key at most 64 bytes; a longer one would have to be hashed first
 * @throws {RangeError} for a longer key
 */
export function hmacSha256(key: Uint8Array): (text: string) => Buffer {
  if (key.length > blockBytes)
    throw new RangeError(`Expected a key of ${blockBytes} bytes or fewer, got ${key.length}.`)
  const padded = (pad: number) => Uint8Array.from({ length: blockBytes }, (_, i) => (key[i] ?? 0) ^ pad)
  const inner = padded(0x36)
  const outer = Buffer.alloc(blockBytes + hashBytes)
  outer.set(padded(0x5c))
  return (text) => {
    const message = Buffer.allocUnsafe(blockBytes + Buffer.byteLength(text))
    message.set(inner)
    message.write(text, blockBytes, 'utf8')
    // As text, one char a byte: for node, making a buffer of a hash is dearer than hashing.
    outer.write(hash('sha256', message, 'latin1'), blockBytes, 'latin1')
    return Buffer.from(hash('sha256', outer, 'latin1'), 'latin1')
  }
}
