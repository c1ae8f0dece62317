import type { SignKind } from '../ports/signer.ts'

/**
 * What goes through the private pipe between the vault and the process that signs: frames of a 4-byte length and so many
 * bytes. Bytes and not JSON, because keys travel here and a string can not be wiped.
 */
export const lengthBytes = 4
/** Above any transaction and any message that the vault takes (256 KiB a request). */
export const MAX_FRAME_BYTES = 1 << 20

export const signKinds: readonly SignKind[] = [
  'evm-transaction',
  'evm-message',
  'evm-typed-data',
  'solana-transaction',
  'solana-message',
]

/**
 * Request types: the first byte of a frame to the child, before the request's number. Those of the second group begin with
 * a {@link Proof}: the child itself looks whether it opens the vault's master key.
 */
export const toChild = {
  describe: 1,
  sign: 2,
  backupKey: 3,
  load: 4,

  open: 16,
  check: 17,
  wrap: 18,
  importKey: 19,
  importSeed: 20,
  exportKey: 21,
  exportWords: 22,

  /** Makes a master key: there is nothing to prove yet. */
  create: 32,
} as const
/** The byte after the request's number in a frame from the child; `refused` is followed by words for the owner. */
export const fromChild = {
  done: 0,
  keyUnknown: 1,
  wrongKind: 2,
  failed: 3,
  badPassword: 4,
  corrupt: 5,
  refused: 6,
} as const

/** What shows that the owner is there: a key that a password gave, and the master key wrapped under it. */
export interface Proof {
  readonly vaultId: string
  readonly wrappedKey: Uint8Array
  /** What the wrapping belongs to. */
  readonly associated: Uint8Array
  /** 32 bytes; the caller zeroes them. */
  readonly passwordKey: Uint8Array
}

export const proofFields = (proof: Proof): readonly (string | Uint8Array)[] => [
  proof.vaultId,
  proof.wrappedKey,
  proof.associated,
  proof.passwordKey,
]

/** A request of fields, each preceded by its length in 4 bytes. */
export function requestFrame(
  type: number,
  request: number,
  fields: readonly (string | Uint8Array)[],
): Buffer {
  const packed = packFields(fields)
  const framed = frame(Uint8Array.of(type), u32(request), packed)
  packed.fill(0)
  return framed
}

/** Asks for a key's public half. */
export function describeFrame(request: number, keyId: string): Buffer {
  return requestFrame(toChild.describe, request, [keyId])
}

export function signFrame(request: number, kind: SignKind, keyId: string, bytes: Uint8Array): Buffer {
  return requestFrame(toChild.sign, request, [Uint8Array.of(signKinds.indexOf(kind)), keyId, bytes])
}

export function answerFrame(request: number, status: number, bytes: Uint8Array = new Uint8Array(0)): Buffer {
  return frame(u32(request), Uint8Array.of(status), bytes)
}

/** Fields one behind the other, each preceded by its length, in a buffer of their own. */
export function packFields(fields: readonly (string | Uint8Array)[]): Buffer {
  const parts = fields.map((field) => (typeof field === 'string' ? Buffer.from(field, 'utf8') : field))
  const packed = Buffer.alloc(parts.reduce((sum, part) => sum + lengthBytes + part.length, 0))
  let at = 0
  for (const part of parts) {
    packed.writeUInt32BE(part.length, at)
    packed.set(part, at + lengthBytes)
    at += lengthBytes + part.length
  }
  return packed
}

/** Views of the fields that {@link packFields} joined. @throws {RangeError} for bytes that it did not */
export function unpackFields(packed: Buffer): Buffer[] {
  const fields: Buffer[] = []
  for (let at = 0; at < packed.length; ) {
    const end = at + lengthBytes + packed.readUInt32BE(at)
    if (end > packed.length) throw new RangeError('A field is longer than its frame.')
    fields.push(packed.subarray(at + lengthBytes, end))
    at = end
  }
  return fields
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
      if (end - at - lengthBytes > MAX_FRAME_BYTES)
        throw new RangeError('A frame is longer than any of ours.')
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

/** A whole number in 4 bytes. */
export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
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
