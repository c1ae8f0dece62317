import { createHash, randomBytes } from 'node:crypto'
import {
  type AnswerHeader,
  type AnswerKind,
  answerBoxBytes,
  keyIdBytes,
  openAnswerHeader,
  openRequestHeader,
  type RequestHeader,
  requestBoxBytes,
  sealAnswerHeader,
  sealRequestHeader,
} from './header.ts'
import type { KeyPair } from './keyPair.ts'
import { lengthPrefixed, uint64 } from './lengthPrefixed.ts'
import { bucketBytes, pad, unpad } from './message.ts'
import {
  type ChannelName,
  channelInfo,
  derive,
  encBytes,
  openBytes,
  type PreShared,
  protocol,
  recipientContext,
  sealBytes,
  senderContext,
  tagBytes,
} from './suite.ts'

/** What both ends of a pairing share before a message: its names, its place at the relay, its header key. */
export interface ChannelKeys extends ChannelName {
  /** The routing id, 16 bytes. */
  readonly route: Buffer
  readonly headerKey: Buffer
}

/** What is needed to read, or to write, the one answer to a request. */
export interface AnswerKeys {
  readonly header: RequestHeader
  readonly enc: Buffer
  readonly secret: Buffer
}

const saltBytes = 32

/** Names a public key in a header. */
export const keyIdOf = (publicKey: Uint8Array): Buffer =>
  createHash('sha256')
    .update(lengthPrefixed(protocol, 'key id', publicKey))
    .digest()
    .subarray(0, keyIdBytes)

/**
 * Seals a request: encapsulated key, encrypted header, ciphertext in one of the bucket sizes. HPKE mode_auth, or
 * mode_auth_psk with `psk`; every request is a context of its own, so that none depends on another having arrived.
 */
export async function sealRequest(
  content: Buffer,
  header: RequestHeader,
  from: KeyPair,
  to: Buffer,
  channel: ChannelKeys,
  psk?: PreShared,
): Promise<{ readonly sealed: Buffer; readonly keys: AnswerKeys }> {
  const context = await senderContext(to, from, channelInfo(channel), psk)
  const enc = Buffer.from(context.enc)
  const ciphertext = Buffer.from(await context.seal(pad(content), aadOf('request', header)))
  const box = sealRequestHeader(header, channel.headerKey, enc, channel.route)
  const secret = Buffer.from(await context.export(answerLabel, 32))
  return { sealed: Buffer.concat([enc, box, ciphertext]), keys: { header, enc, secret } }
}

/** Reads the header of a request; undefined when it is not one of this channel. Nothing is believed but the header. */
export function readRequestHeader(sealed: Buffer, channel: ChannelKeys): RequestHeader | undefined {
  if (!hasBucket(sealed.byteLength - encBytes - requestBoxBytes)) return undefined
  const [enc, box] = [sealed.subarray(0, encBytes), sealed.subarray(encBytes, encBytes + requestBoxBytes)]
  return openRequestHeader(box, channel.headerKey, enc, channel.route)
}

/** Opens a request whose header was read; undefined when anything of it is not what the sender sealed. */
export async function openRequest(
  sealed: Buffer,
  header: RequestHeader,
  from: Buffer,
  at: KeyPair,
  channel: ChannelKeys,
  psk?: PreShared,
): Promise<{ readonly content: Buffer; readonly keys: AnswerKeys } | undefined> {
  const enc = Buffer.from(sealed.subarray(0, encBytes))
  try {
    const context = await recipientContext(at, from, enc, channelInfo(channel), psk)
    const padded = await context.open(sealed.subarray(encBytes + requestBoxBytes), aadOf('request', header))
    const content = unpad(Buffer.from(padded))
    if (content === undefined) return undefined
    const secret = Buffer.from(await context.export(answerLabel, 32))
    return { content, keys: { header, enc, secret } }
  } catch {
    return undefined // not ours, or damaged: the library's reasons differ, and none may be told apart from outside
  }
}

/**
 * Seals an answer under keys that come from the request's exporter and 32 fresh bytes, as RFC 9458 (section 4.4) does:
 * even two different answers to one request never share a key.
 */
export function sealAnswer(
  content: Buffer,
  keys: AnswerKeys,
  channel: ChannelKeys,
  vaultTimeMs: number,
): Buffer {
  const salt = randomBytes(saltBytes)
  const header: AnswerHeader = { kind: 'answer', requestId: keys.header.requestId, vaultTimeMs }
  const { key, nonce } = answerSecrets(keys, salt)
  return Buffer.concat([
    salt,
    sealAnswerHeader(header, channel.headerKey, salt, channel.route),
    sealBytes(key, nonce, aadOf('answer', keys.header), pad(content)),
  ])
}

/** A notice is as long as a short answer; what stands where the ciphertext would be is noise. */
export function sealNotice(
  kind: Exclude<AnswerKind, 'answer'>,
  requestId: Buffer,
  channel: ChannelKeys,
  vaultTimeMs: number,
): Buffer {
  const salt = randomBytes(saltBytes)
  const box = sealAnswerHeader({ kind, requestId, vaultTimeMs }, channel.headerKey, salt, channel.route)
  return Buffer.concat([salt, box, randomBytes(bucketBytes[0] + tagBytes)])
}

/** Reads which request an answer is for; undefined when it is not one of this channel. */
export function readAnswerHeader(sealed: Buffer, channel: ChannelKeys): AnswerHeader | undefined {
  if (!hasBucket(sealed.byteLength - saltBytes - answerBoxBytes)) return undefined
  const [salt, box] = [sealed.subarray(0, saltBytes), sealed.subarray(saltBytes, saltBytes + answerBoxBytes)]
  return openAnswerHeader(box, channel.headerKey, salt, channel.route)
}

/** Opens the answer to the request that `keys` came from; undefined when it is another's, or not whole. */
export function openAnswer(sealed: Buffer, keys: AnswerKeys): Buffer | undefined {
  const { key, nonce } = answerSecrets(keys, sealed.subarray(0, saltBytes))
  const ciphertext = sealed.subarray(saltBytes + answerBoxBytes)
  const padded = openBytes(key, nonce, aadOf('answer', keys.header), ciphertext)
  return padded && unpad(padded)
}

const answerLabel = Buffer.from(`${protocol} answer`)

function answerSecrets(keys: AnswerKeys, salt: Buffer): { key: Buffer; nonce: Buffer } {
  const both = Buffer.concat([keys.enc, salt])
  return { key: derive(keys.secret, both, 'key'), nonce: derive(keys.secret, both, 'nonce', 12) }
}

/** The direction (with what the request is for), the request, its place in the session and its end. */
const aadOf = (direction: 'request' | 'answer', header: RequestHeader): Buffer =>
  lengthPrefixed(
    `${direction}/${header.kind}`,
    header.requestId,
    uint64(header.sequence),
    uint64(header.expiresAtMs),
  )

const hasBucket = (bytes: number): boolean => bucketBytes.some((size) => size + tagBytes === bytes)
