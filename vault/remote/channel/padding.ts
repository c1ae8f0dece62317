/**
 * The sizes a plaintext can have on the wire, in bytes. A request with its 256 KiB body fits the largest, and the
 * largest with everything around it stays below the relay's 512 KiB a frame.
 */
export const bucketBytes = [1024, 4096, 16_384, 65_536, 262_144, 491_520] as const

const lengthBytes = 4

/** The longest content that {@link pad} takes, in bytes. */
export const largestContentBytes = bucketBytes.at(-1)! - lengthBytes

/** Fills up to the next bucket, so that whoever forwards the ciphertext learns one of six sizes and nothing finer. */
export function pad(content: Uint8Array): Buffer {
  const bucket = bucketBytes.find((size) => size >= content.byteLength + lengthBytes)
  if (bucket === undefined)
    throw new RangeError(`expected at most ${largestContentBytes} bytes, got ${content.byteLength}`)
  const padded = Buffer.alloc(bucket)
  padded.writeUInt32BE(content.byteLength)
  padded.set(content, lengthBytes)
  return padded
}

/** Takes the content out again; undefined unless the size is a bucket, the smallest that fits, and the rest is zero. */
export function unpad(padded: Buffer): Buffer | undefined {
  const index = bucketBytes.indexOf(padded.byteLength as (typeof bucketBytes)[number])
  if (index < 0) return undefined
  const end = lengthBytes + padded.readUInt32BE()
  if (end > padded.byteLength || end <= (bucketBytes[index - 1] ?? 0)) return undefined
  for (let i = end; i < padded.byteLength; i++) if (padded[i] !== 0) return undefined
  return padded.subarray(lengthBytes, end)
}
