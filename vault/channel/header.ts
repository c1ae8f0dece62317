import {
  derive,
  encBytes,
  lengthPrefixed,
  openBytes,
  protocol,
  readUint64,
  sealBytes,
  tagBytes,
  uint64,
} from './suite.ts'

/**
 * The kind of a request. `begin` and `finish` are the two steps of pairing, `hello` requests a session key, `call` contains a
 * call.
 */
export type RequestKind = 'begin' | 'finish' | 'hello' | 'call'

/** The fields that the vault needs before it can open a request. The header is encrypted, so the relay cannot read it. */
export interface RequestHeader {
  readonly kind: RequestKind
  /** The first eight bytes of the hash of the vault's key with which the request is sealed. */
  readonly keyId: Buffer
  /** 16 random bytes. */
  readonly requestId: Buffer
  /** Number of a call in its session, from 1. It is 0 in requests of other kinds. */
  readonly sequence: number
  /** Time after which the vault no longer starts the request, in ms by the vault's clock. */
  readonly expiresAtMs: number
  /** The proxy's static key in a `begin` request. It is all zeros in later requests, because the vault then has the key. */
  readonly sender: Buffer
}

/**
 * The kind of a response. All kinds except `answer` are notices, which are authentic but have no content. `expired`: the call
 * was not performed and never will be. `unknown-key` and `replayed`: the call may have been performed. `under-way`: the
 * response follows. The vault sends `under-way` for a copy of a request, and before a long response.
 */
export type ResponseKind =
  | 'answer'
  | 'unknown-key'
  | 'expired'
  | 'replayed'
  | 'unopened'
  | 'revoked'
  | 'under-way'

export interface ResponseHeader {
  readonly kind: ResponseKind
  readonly requestId: Buffer
  /** The vault's clock, in milliseconds since 1970. */
  readonly vaultTimeMs: number
}

const requestKinds: readonly RequestKind[] = ['begin', 'finish', 'hello', 'call']
const responseKinds: readonly ResponseKind[] = [
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
const responseHeaderBytes = 1 + idBytes + 8

export const requestBoxBytes = requestHeaderBytes + tagBytes
export const responseBoxBytes = responseHeaderBytes + tagBytes

/** The nonce may be constant, because each message has a key of its own, which is derived with a salt of 32 random bytes. */
const nonce = Buffer.alloc(12)

/**
 * Encrypts the header with a new key per message. The key is derived from the pairing's header key, with the message's
 * encapsulated key as salt. A forged message is refused here, before any curve arithmetic.
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

/** Decrypts a header. Undefined if it was not sealed for this route with this key. */
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

export function sealResponseHeader(
  header: ResponseHeader,
  headerKey: Buffer,
  salt: Buffer,
  route: Buffer,
): Buffer {
  const plain = Buffer.concat([
    Buffer.of(responseKinds.indexOf(header.kind)),
    header.requestId,
    uint64(header.vaultTimeMs),
  ])
  return sealBytes(boxKey(headerKey, salt, 'answer'), nonce, boxAad('answer', route), plain)
}

export function openResponseHeader(
  box: Buffer,
  headerKey: Buffer,
  salt: Buffer,
  route: Buffer,
): ResponseHeader | undefined {
  const plain = openBytes(boxKey(headerKey, salt, 'answer'), nonce, boxAad('answer', route), box)
  if (plain === undefined || plain.byteLength !== responseHeaderBytes) return undefined
  const kind = responseKinds[plain[0]!]
  const vaultTimeMs = readUint64(plain, 17)
  if (kind === undefined || vaultTimeMs === undefined) return undefined
  return { kind, requestId: plain.subarray(1, 17), vaultTimeMs }
}

const boxKey = (headerKey: Buffer, salt: Buffer, direction: string): Buffer =>
  derive(headerKey, salt, `${protocol} header ${direction}`)

const boxAad = (direction: string, route: Buffer): Buffer => lengthPrefixed(protocol, direction, route)
