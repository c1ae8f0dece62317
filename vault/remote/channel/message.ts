import { largestContentBytes } from './padding.ts'

/** What travels inside the encryption: a small JSON head and raw bytes behind it. */
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

/** Undefined for anything that {@link encodeMessage} does not write. */
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
