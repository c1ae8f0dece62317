/** The plaintext of a message: a small JSON head followed by raw bytes. */
export interface Message {
  readonly head: Readonly<Record<string, unknown>>
  readonly body: Buffer
}

const noBody = Buffer.alloc(0)

/** @throws RangeError when head and body together are longer than the largest bucket. */
export function encodeMessage(head: object, body: Uint8Array = noBody): Buffer {
  const text = Buffer.from(JSON.stringify(head), 'utf8')
  const total = 4 + text.byteLength + body.byteLength
  if (total > largestContentBytes)
    throw new RangeError(`expected a message of at most ${largestContentBytes} bytes, got ${total}`)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(text.byteLength)
  return Buffer.concat([length, text, body])
}

/** Undefined if the bytes are not in the form that {@link encodeMessage} writes. */
export function decodeMessage(bytes: Buffer): Message | undefined {
  if (bytes.byteLength < 4) return undefined
  const end = 4 + bytes.readUInt32BE()
  if (end > bytes.byteLength) return undefined
  try {
    const head: unknown = JSON.parse(bytes.toString('utf8', 4, end))
    if (typeof head !== 'object' || head === null || Array.isArray(head)) return undefined
    return { head: head as Message['head'], body: bytes.subarray(end) }
  } catch {
    return undefined
  }
}

/**
 * The possible sizes of a plaintext on the wire, in bytes. A request with a body of 256 KiB fits into the largest size. That
 * size with its overhead is below the relay's limit of 512 KiB per frame.
 */
export const bucketBytes = [1024, 4096, 16_384, 65_536, 262_144, 491_520] as const

const lengthBytes = 4

/** The longest content that {@link pad} accepts, in bytes. */
export const largestContentBytes = bucketBytes.at(-1)! - lengthBytes

/** Pads the content with zeros to the next bucket size, so that the relay learns only which of six sizes it has. */
export function pad(content: Uint8Array): Buffer {
  const bucket = bucketBytes.find((size) => size >= content.byteLength + lengthBytes)
  if (bucket === undefined)
    throw new RangeError(`expected at most ${largestContentBytes} bytes, got ${content.byteLength}`)
  const padded = Buffer.alloc(bucket)
  padded.writeUInt32BE(content.byteLength)
  padded.set(content, lengthBytes)
  return padded
}

/** Removes the padding. Undefined unless the size is the smallest bucket that fits and the padding is zero. */
export function unpad(padded: Buffer): Buffer | undefined {
  const index = bucketBytes.indexOf(padded.byteLength as (typeof bucketBytes)[number])
  if (index < 0) return undefined
  const end = lengthBytes + padded.readUInt32BE()
  if (end > padded.byteLength || end <= (bucketBytes[index - 1] ?? 0)) return undefined
  for (let i = end; i < padded.byteLength; i++) if (padded[i] !== 0) return undefined
  return padded.subarray(lengthBytes, end)
}
