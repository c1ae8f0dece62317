/**
 * How often each buyer bought, as a column stores it. The column has pairs of 32 bits (a buyer's number and a count), in the order
 * of the numbers. The gateway reads four hundred thousand pairs in a few milliseconds. As many rows would take far longer.
 */

/** Bytes of a buyer's number and count. */
export const PAIR_BYTES = 8
const NUMBER_BITS = 0x7fffffff

/**
 * Adds changes to the counts of a column. Removes buyers whose count becomes 0.
 * @param changes counts by buyer number, may be negative
 */
export function changedCounts(
  bytes: Uint8Array | null,
  changes: ReadonlyMap<number, number>,
): Uint8Array | null {
  const present = pairsOf(bytes)
  const added = [...changes].sort(([a], [b]) => a - b)
  const pairs = new Uint32Array(present.length + added.length * 2)
  let [length, at] = [0, 0]
  const put = (number: number, count: number) => {
    if (count <= 0) return
    pairs[length++] = number
    pairs[length++] = count
  }
  for (const [number, change] of added) {
    while (at < present.length && present[at]! < number) put(present[at++]!, present[at++]!)
    const isThere = present[at] === number
    put(number, (isThere ? present[at + 1]! : 0) + change)
    if (isThere) at += 2
  }
  while (at < present.length) put(present[at++]!, present[at++]!)
  return length === 0 ? null : new Uint8Array(pairs.buffer, 0, length * 4)
}

/**
 * How many different buyers are in the columns.
 * @param columns each item is a column, or several columns concatenated
 */
export function countBuyers(columns: readonly (Uint8Array | null)[]): number {
  const all = columns.map(pairsOf)
  // Buyers by transfers are numbered from 0 on, and buyers by channels from 2^31 on.
  const largest: [number, number] = [0, 0]
  for (const pairs of all)
    for (let i = 0; i < pairs.length; i += 2) {
      const kind = (pairs[i]! >>> 31) as 0 | 1
      largest[kind] = Math.max(largest[kind], pairs[i]! & NUMBER_BITS)
    }
  const seenOf = largest.map((number) => new Uint8Array((number >>> 3) + 1))
  let count = 0
  for (const pairs of all) {
    for (let i = 0; i < pairs.length; i += 2) {
      const number = pairs[i]! & NUMBER_BITS
      const seen = seenOf[pairs[i]! >>> 31]!
      const bit = 1 << (number & 7)
      if ((seen[number >>> 3]! & bit) !== 0) continue
      seen[number >>> 3]! |= bit
      count++
    }
  }
  return count
}

/** The pairs of a column, concatenated. */
export const pairsOf = (bytes: Uint8Array | null): Uint32Array =>
  bytes === null
    ? new Uint32Array()
    : bytes.byteOffset % 4 === 0
      ? new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >>> 2)
      : new Uint32Array(new Uint8Array(bytes).buffer)
