import { crc32 } from 'node:zlib'
import { seal, sealOverheadBytes, unseal } from './aead.ts'

/** No frame holds more than this; a length above it was not written by us. */
export const MAX_FRAME_BYTES = 1 << 20
const headBytes = 8
/** So many zeros at the end of a file are blocks that were allocated and never written, not a ciphertext. */
const unwrittenZeroBytes = 32

/** A sealed payload with its length before it, and a checksum of the length. */
export function writeFrame(key: Uint8Array, index: number, payload: Uint8Array): Buffer {
  const length = payload.length + sealOverheadBytes
  if (length > MAX_FRAME_BYTES)
    throw new RangeError(`Expected a frame of at most ${MAX_FRAME_BYTES} bytes, got ${length}.`)
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(length)
  head.writeUInt32BE(checkOf(head), 4)
  return Buffer.concat([head, seal(key, payload, indexBytes(index))])
}

export type FrameRead =
  | { readonly kind: 'frame'; readonly payload: Buffer; readonly next: number }
  /** The file ends inside the frame: what a crash leaves of a write that nobody was told about. */
  | { readonly kind: 'torn' }
  /** Something else than what was written. */
  | { readonly kind: 'bad' }

/**
 * The frame at an offset. Where the file ends decides between a crash and damage: the length has a checksum of its own,
 * so that no changed length makes a whole frame look like an unfinished one, which would be cut off without a word.
 */
export function readFrame(key: Uint8Array, index: number, file: Buffer, offset: number): FrameRead {
  const left = file.length - offset
  if (left < headBytes) return { kind: 'torn' }
  const length = file.readUInt32BE(offset)
  const isLength =
    file.readUInt32BE(offset + 4) === checkOf(file.subarray(offset, offset + 4)) &&
    length >= sealOverheadBytes &&
    length <= MAX_FRAME_BYTES
  if (!isLength) return { kind: endsUnwritten(file, offset) ? 'torn' : 'bad' }
  const next = offset + headBytes + length
  if (next > file.length) return { kind: 'torn' }
  const payload = unseal(key, file.subarray(offset + headBytes, next), indexBytes(index))
  if (payload !== undefined) return { kind: 'frame', payload, next }
  return { kind: endsUnwritten(file, offset) ? 'torn' : 'bad' }
}

/** True when nothing but zeros ends the file, and enough of them; a changed byte never makes that many. */
function endsUnwritten(file: Buffer, from: number): boolean {
  if (file.length - from < unwrittenZeroBytes) return file.subarray(from).every((byte) => byte === 0)
  return file.subarray(-unwrittenZeroBytes).every((byte) => byte === 0)
}

function checkOf(length: Uint8Array): number {
  return crc32(length.subarray(0, 4), 0x54474c46)
}

/** A frame belongs to its place: moved, left out or said twice, it does not open. */
function indexBytes(index: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(index))
  return bytes
}
