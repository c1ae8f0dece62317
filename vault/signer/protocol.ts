import { deriveKey } from '../disk/aead.ts'
import type { SignKind } from '../ports/signer.ts'

/**
 * The private pipe between the vault and the signing process transfers frames, each with a 4-byte length before its bytes.
 * Frames are bytes and not JSON, because they contain keys, and a string cannot be wiped.
 */
export const lengthBytes = 4
/**
 * Maximum size of a frame, in bytes. It is larger than any transaction and message that the vault accepts (256 KiB per
 * request).
 */
export const MAX_FRAME_BYTES = 1 << 20

export const signKinds: readonly SignKind[] = [
  'evm-transaction',
  'evm-message',
  'evm-typed-data',
  'solana-transaction',
  'solana-message',
]

/**
 * Request types. The type is the first byte of a frame to the child, before the request's number. Requests of the second group
 * start with a {@link Proof}. The child itself checks whether the proof opens the vault's master key.
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

  /** Creates a master key. It needs no proof, because there is nothing to prove yet. */
  create: 32,
} as const
/**
 * Status of a response. It is the byte after the request's number in a frame from the child. After `refused`, a message for the
 * owner follows.
 */
export const fromChild = {
  done: 0,
  keyUnknown: 1,
  wrongKind: 2,
  failed: 3,
  badPassword: 4,
  corrupt: 5,
  refused: 6,
} as const

/** Proof that the owner is present: a key derived from the password, and the master key wrapped with it. */
export interface Proof {
  readonly vaultId: string
  readonly wrappedKey: Uint8Array
  /** The data to which the wrapped key is bound. */
  readonly associated: Uint8Array
  /** 32 bytes, which the caller zeroes. */
  readonly passwordKey: Uint8Array
}

export const proofFields = (proof: Proof): readonly (string | Uint8Array)[] => [
  proof.vaultId,
  proof.wrappedKey,
  proof.associated,
  proof.passwordKey,
]

/** A request with its fields. Each field has its 4-byte length before it. */
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

/** Requests a key's public half. */
export function describeFrame(request: number, keyId: string): Buffer {
  return requestFrame(toChild.describe, request, [keyId])
}

export function signFrame(request: number, kind: SignKind, keyId: string, bytes: Uint8Array): Buffer {
  return requestFrame(toChild.sign, request, [Uint8Array.of(signKinds.indexOf(kind)), keyId, bytes])
}

export function responseFrame(
  request: number,
  status: number,
  bytes: Uint8Array = new Uint8Array(0),
): Buffer {
  return frame(u32(request), Uint8Array.of(status), bytes)
}

/** Joins fields in a new buffer. Each field has its length before it. */
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

/** Views of the fields that {@link packFields} joined. @throws {RangeError} for malformed bytes */
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

/** Splits a stream into frames. A frame is valid only during the callback, and is zeroed afterwards. */
export function createFrameReader(onFrame: (body: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    const held = rest
    const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    let at = 0
    while (bytes.length - at >= lengthBytes) {
      const end = at + lengthBytes + bytes.readUInt32BE(at)
      if (end - at - lengthBytes > MAX_FRAME_BYTES) throw new RangeError('A frame exceeds the size limit.')
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

/** An integer in 4 bytes. */
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

/**
 * The keys of the HTTP process, one for each purpose, 32 bytes each. They are derived from the master key (HKDF-SHA256, RFC
 * 5869). They reveal neither the master key nor a key record.
 */
export interface HostKeys {
  /** Wraps the data keys of all records except key records: values, credentials, agents, policies, approvals, … */
  readonly records: Buffer
  /** Seals the rows of the database: names of records, the budget journal, the vault's progress. */
  readonly rows: Buffer
  /** Authenticates the entries of the log. */
  readonly audit: Buffer
}

const uses: Readonly<Record<keyof HostKeys, string>> = {
  records: 'host records',
  rows: 'host rows',
  audit: 'audit',
}
const names = Object.keys(uses) as (keyof HostKeys)[]
const noSalt = new Uint8Array(0)

/** The host's keys, concatenated. The caller zeroes them. */
export function deriveHostKeys(masterKey: Uint8Array, vaultId: string): Buffer {
  const each = names.map((name) => deriveKey(masterKey, uses[name], vaultId, noSalt))
  const all = Buffer.concat(each)
  for (const key of each) key.fill(0)
  return all
}

/** Views of the result of {@link deriveHostKeys}. */
export function readHostKeys(bytes: Buffer): HostKeys {
  const keyBytes = bytes.length / names.length
  const keys = names.map((name, i) => [name, bytes.subarray(i * keyBytes, (i + 1) * keyBytes)] as const)
  return Object.fromEntries(keys) as unknown as HostKeys
}

export function zeroHostKeys(keys: HostKeys): void {
  for (const key of Object.values(keys)) key.fill(0)
}
