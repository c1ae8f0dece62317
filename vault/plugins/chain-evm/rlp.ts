/** Deepest nesting that is read: a transaction is a list that holds an access list of pairs with a list of keys. */
const MAX_DEPTH = 5

/** A string of bytes, or a list of items. */
export type RlpItem = Uint8Array | readonly RlpItem[]

/**
 * Reads one RLP item that is the whole input. Strict: every length in its shortest form, a single byte below 0x80 as
 * itself, nothing left over; so each item has one spelling and writing it again gives the same bytes.
 *
 * @returns undefined for anything else
 * @see https://ethereum.org/en/developers/docs/data-structures-and-encoding/rlp/
 */
export function readRlp(bytes: Uint8Array): RlpItem | undefined {
  const read = readItem(bytes, 0, bytes.length, 0)
  return read !== undefined && read.end === bytes.length ? read.item : undefined
}

/** Writes an item in its one form. */
export function writeRlp(item: RlpItem): Uint8Array {
  if (item instanceof Uint8Array) {
    if (item.length === 1 && item[0]! < 0x80) return Uint8Array.from(item)
    return Buffer.concat([prefix(0x80, item.length), item])
  }
  const body = Buffer.concat(item.map(writeRlp))
  return Buffer.concat([prefix(0xc0, body.length), body])
}

interface Read {
  readonly item: RlpItem
  readonly end: number
}

function readItem(bytes: Uint8Array, at: number, limit: number, depth: number): Read | undefined {
  const first = bytes[at]
  if (at >= limit || first === undefined) return undefined
  if (first < 0x80) return { item: bytes.subarray(at, at + 1), end: at + 1 }
  const isList = first >= 0xc0
  const span = readSpan(bytes, at, limit, isList ? 0xc0 : 0x80)
  if (span === undefined) return undefined
  if (!isList) {
    const isItself = span.end - span.start === 1 && bytes[span.start]! < 0x80
    return isItself ? undefined : { item: bytes.subarray(span.start, span.end), end: span.end }
  }
  if (depth === MAX_DEPTH) return undefined
  const items: RlpItem[] = []
  let next = span.start
  while (next < span.end) {
    const read = readItem(bytes, next, span.end, depth + 1)
    if (read === undefined) return undefined
    items.push(read.item)
    next = read.end
  }
  return { item: items, end: span.end }
}

/** Where the content of the string or list at a place begins and ends. */
function readSpan(
  bytes: Uint8Array,
  at: number,
  limit: number,
  base: number,
): { start: number; end: number } | undefined {
  const short = bytes[at]! - base
  if (short <= 55) {
    const end = at + 1 + short
    return end > limit ? undefined : { start: at + 1, end }
  }
  const lengthBytes = short - 55
  const start = at + 1 + lengthBytes
  // Four bytes of length are more than any request that is read.
  if (lengthBytes > 4 || start > limit || bytes[at + 1] === 0) return undefined
  let length = 0
  for (let i = at + 1; i < start; i++) length = length * 256 + bytes[i]!
  return length <= 55 || start + length > limit ? undefined : { start, end: start + length }
}

function prefix(base: number, length: number): Uint8Array {
  if (length <= 55) return Uint8Array.of(base + length)
  const hex = length.toString(16)
  const digits = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex')
  return Buffer.concat([Uint8Array.of(base + 55 + digits.length), digits])
}
