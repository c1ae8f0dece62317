import { lengthPrefixed, readUint64, uint64 } from './lengthPrefixed.ts'
import { derive, encBytes, openBytes, protocol, sealBytes, tagBytes } from './suite.ts'

/** What a request is for. `begin` and `finish` pair, `hello` asks for a session's key, `call` carries a call. */
export type RequestKind = 'begin' | 'finish' | 'hello' | 'call'

/** What the vault needs before it can open a request. The relay sees none of it: the header is encrypted too. */
export interface RequestHeader {
  readonly kind: RequestKind
  /** First eight bytes of the hash of the vault's key that the request is sealed to. */
  readonly keyId: Buffer
  /** 16 random bytes. */
  readonly requestId: Buffer
  /** Counts the calls of a session from 1; 0 for everything else. */
  readonly sequence: number
  /** When the vault no longer begins it, in milliseconds of the vault's clock. */
  readonly expiresAtMs: number
  /** The proxy's static key: all zero except in `begin`, afterwards the vault knows it. */
  readonly sender: Buffer
}

/**
 * How the vault answers. Everything but `answer` is a notice: authentic, but without content. After `expired` a call was not
 * performed and never will be; after `unknown-key` and `replayed` it may have been. `under-way` says that the answer follows:
 * to a copy of a request, and before a long answer.
 */
export type AnswerKind =
  | 'answer'
  | 'unknown-key'
  | 'expired'
  | 'replayed'
  | 'unopened'
  | 'revoked'
  | 'under-way'

export interface AnswerHeader {
  readonly kind: AnswerKind
  readonly requestId: Buffer
  /** The vault's clock, in milliseconds since 1970. */
  readonly vaultTimeMs: number
}

const requestKinds: readonly RequestKind[] = ['begin', 'finish', 'hello', 'call']
const answerKinds: readonly AnswerKind[] = [
  'answer',
  'unknown-key',
  'expired',
  'replayed',
  'unopened',
  'revoked',
  'under-way',
]

export const idBytes = 16
export const keyIdBytes = 8
const requestHeaderBytes = 1 + keyIdBytes + idBytes + 8 + 8 + encBytes
const answerHeaderBytes = 1 + idBytes + 8

export const requestBoxBytes = requestHeaderBytes + tagBytes
export const answerBoxBytes = answerHeaderBytes + tagBytes

/** No second message has the same key, because the salt is its fresh 32 bytes; so the nonce may be constant. */
const nonce = Buffer.alloc(12)

/**
 * Encrypts the header under the pairing's header key, in a key of its own for each message: the salt is the message's
 * encapsulated key, which is new for each. A forged message is refused here, before any curve arithmetic.
 */
export function sealRequestHeader(
  header: RequestHeader,
  headerKey: Buffer,
  enc: Buffer,
  route: Buffer,
): Buffer {
  const plain = Buffer.concat([
    Buffer.of(requestKinds.indexOf(header.kind)),
    header.keyId,
    header.requestId,
    uint64(header.sequence),
    uint64(header.expiresAtMs),
    header.sender,
  ])
  return sealBytes(boxKey(headerKey, enc, 'request'), nonce, boxAad('request', route), plain)
}

/** Undefined when it was not sealed for this route under this key. */
export function openRequestHeader(
  box: Buffer,
  headerKey: Buffer,
  enc: Buffer,
  route: Buffer,
): RequestHeader | undefined {
  const plain = openBytes(boxKey(headerKey, enc, 'request'), nonce, boxAad('request', route), box)
  if (plain === undefined || plain.byteLength !== requestHeaderBytes) return undefined
  const kind = requestKinds[plain[0]!]
  const sequence = readUint64(plain, 25)
  const expiresAtMs = readUint64(plain, 33)
  if (kind === undefined || sequence === undefined || expiresAtMs === undefined) return undefined
  return {
    kind,
    keyId: plain.subarray(1, 9),
    requestId: plain.subarray(9, 25),
    sequence,
    expiresAtMs,
    sender: plain.subarray(41),
  }
}

export function sealAnswerHeader(
  header: AnswerHeader,
  headerKey: Buffer,
  salt: Buffer,
  route: Buffer,
): Buffer {
  const plain = Buffer.concat([
    Buffer.of(answerKinds.indexOf(header.kind)),
    header.requestId,
    uint64(header.vaultTimeMs),
  ])
  return sealBytes(boxKey(headerKey, salt, 'answer'), nonce, boxAad('answer', route), plain)
}

export function openAnswerHeader(
  box: Buffer,
  headerKey: Buffer,
  salt: Buffer,
  route: Buffer,
): AnswerHeader | undefined {
  const plain = openBytes(boxKey(headerKey, salt, 'answer'), nonce, boxAad('answer', route), box)
  if (plain === undefined || plain.byteLength !== answerHeaderBytes) return undefined
  const kind = answerKinds[plain[0]!]
  const vaultTimeMs = readUint64(plain, 17)
  if (kind === undefined || vaultTimeMs === undefined) return undefined
  return { kind, requestId: plain.subarray(1, 17), vaultTimeMs }
}

const boxKey = (headerKey: Buffer, salt: Buffer, direction: string): Buffer =>
  derive(headerKey, salt, `${protocol} header ${direction}`)

const boxAad = (direction: string, route: Buffer): Buffer => lengthPrefixed(protocol, direction, route)
