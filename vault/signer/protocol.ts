import type { KeyFamily } from '../ports/keyring.ts'
import type { SignKind } from '../ports/signer.ts'

/**
 * What goes through the private pipe between the vault and the process that signs: frames of a 4-byte length and so many
 * bytes. Bytes and not JSON, because keys travel here and a string can not be wiped.
 */
export const lengthBytes = 4
/** Above any transaction and any message that the vault takes (256 KiB a request). */
export const maxFrameBytes = 1 << 20

export const signKinds: readonly SignKind[] = [
  'evm-transaction',
  'evm-message',
  'evm-typed-data',
  'solana-transaction',
  'solana-message',
]

/** Request types: the first byte of a frame to the child. */
export const toChild = { seed: 1, importKey: 2, describe: 3, sign: 4 } as const
/** The byte after the request's number in a frame from the child. */
export const fromChild = { done: 0, keyUnknown: 1, wrongKind: 2, failed: 3 } as const

export function seedFrame(seed: Uint8Array): Buffer {
  return frame(Uint8Array.of(toChild.seed), seed)
}

export function importFrame(keyId: string, family: KeyFamily, privateKey: Uint8Array): Buffer {
  return frame(Uint8Array.of(toChild.importKey, family === 'evm' ? 0 : 1), shortText(keyId), privateKey)
}

/** Asks for a key's public half. */
export function describeFrame(request: number, keyId: string): Buffer {
  return frame(Uint8Array.of(toChild.describe), number(request), shortText(keyId))
}

export function signFrame(request: number, kind: SignKind, keyId: string, bytes: Uint8Array): Buffer {
  const kindByte = Uint8Array.of(signKinds.indexOf(kind))
  return frame(Uint8Array.of(toChild.sign), number(request), kindByte, shortText(keyId), bytes)
}

export function answerFrame(request: number, status: number, bytes: Uint8Array = new Uint8Array(0)): Buffer {
  return frame(number(request), Uint8Array.of(status), bytes)
}

/** A text preceded by its length in one byte, at an offset. */
export function readShortText(
  body: Buffer,
  offset: number,
): { readonly text: string; readonly next: number } {
  const next = offset + 1 + body.readUInt8(offset)
  return { text: body.toString('utf8', offset + 1, next), next }
}

/** Cuts a stream into frames. What it hands out is valid during the call only, and is zeroed afterwards. */
export function createFrameReader(onFrame: (body: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    const held = rest
    const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    let at = 0
    while (bytes.length - at >= lengthBytes) {
      const end = at + lengthBytes + bytes.readUInt32BE(at)
      if (end - at - lengthBytes > maxFrameBytes) throw new RangeError('A frame is longer than any of ours.')
      if (end > bytes.length) break
      onFrame(bytes.subarray(at + lengthBytes, end))
      at = end
    }
    rest = Buffer.from(bytes.subarray(at))
    held.fill(0)
    bytes.fill(0)
    if (bytes !== chunk) chunk.fill(0)
  }
}

function frame(...parts: readonly Uint8Array[]): Buffer {
  const body = parts.reduce((sum, part) => sum + part.length, 0)
  const bytes = Buffer.alloc(lengthBytes + body)
  bytes.writeUInt32BE(body)
  let at = lengthBytes
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function shortText(text: string): Buffer {
  const bytes = Buffer.from(text, 'utf8')
  return Buffer.concat([Uint8Array.of(bytes.length), bytes])
}
