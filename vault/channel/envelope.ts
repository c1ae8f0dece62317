import { createHash, randomBytes } from 'node:crypto'
import {
  keyIdBytes,
  openRequestHeader,
  openResponseHeader,
  type RequestHeader,
  type ResponseHeader,
  type ResponseKind,
  requestBoxBytes,
  responseBoxBytes,
  sealRequestHeader,
  sealResponseHeader,
} from './header.ts'
import { bucketBytes, pad, unpad } from './message.ts'
import {
  type ChannelName,
  channelInfo,
  derive,
  encBytes,
  type KeyPair,
  lengthPrefixed,
  openBytes,
  type PreShared,
  protocol,
  recipientContext,
  sealBytes,
  senderContext,
  tagBytes,
  uint64,
} from './suite.ts'

/**
 * The values that both ends of a pairing have before a message: their names, the routing id at the relay, and the header key.
 */
export interface ChannelKeys extends ChannelName {
  /** The routing id, 16 bytes. */
  readonly route: Buffer
  readonly headerKey: Buffer
}

/** The keys of the one response to a request. */
export interface ResponseKeys {
  readonly header: RequestHeader
  readonly enc: Buffer
  readonly secret: Buffer
}

const saltBytes = 32

/** The id by which a header names a public key. */
export const keyIdOf = (publicKey: Uint8Array): Buffer =>
  createHash('sha256')
    .update(lengthPrefixed(protocol, 'key id', publicKey))
    .digest()
    .subarray(0, keyIdBytes)

/**
 * Seals a request: encapsulated key, encrypted header, ciphertext in one of the bucket sizes. Uses HPKE mode_auth, or
 * mode_auth_psk with `psk`. Every request has its own HPKE context, so it can be opened even if an earlier request was lost.
 */
export async function sealRequest(
  content: Buffer,
  header: RequestHeader,
  from: KeyPair,
  to: Buffer,
  channel: ChannelKeys,
  psk?: PreShared,
): Promise<{ readonly sealed: Buffer; readonly keys: ResponseKeys }> {
  const context = await senderContext(to, from, channelInfo(channel), psk)
  const enc = Buffer.from(context.enc)
  const ciphertext = Buffer.from(await context.seal(pad(content), aadOf('request', header)))
  const box = sealRequestHeader(header, channel.headerKey, enc, channel.route)
  const secret = Buffer.from(await context.export(responseLabel, 32))
  return { sealed: Buffer.concat([enc, box, ciphertext]), keys: { header, enc, secret } }
}

/**
 * Decrypts and authenticates the header of a request, but not its content. Undefined if the header is not from this channel.
 */
export function readRequestHeader(sealed: Buffer, channel: ChannelKeys): RequestHeader | undefined {
  if (!hasBucket(sealed.byteLength - encBytes - requestBoxBytes)) return undefined
  const [enc, box] = [sealed.subarray(0, encBytes), sealed.subarray(encBytes, encBytes + requestBoxBytes)]
  return openRequestHeader(box, channel.headerKey, enc, channel.route)
}

/** Opens a request whose header was read. Undefined if any part was changed. */
export async function openRequest(
  sealed: Buffer,
  header: RequestHeader,
  from: Buffer,
  at: KeyPair,
  channel: ChannelKeys,
  psk?: PreShared,
): Promise<{ readonly content: Buffer; readonly keys: ResponseKeys } | undefined> {
  const enc = Buffer.from(sealed.subarray(0, encBytes))
  try {
    const context = await recipientContext(at, from, enc, channelInfo(channel), psk)
    const padded = await context.open(sealed.subarray(encBytes + requestBoxBytes), aadOf('request', header))
    const content = unpad(Buffer.from(padded))
    if (content === undefined) return undefined
    const secret = Buffer.from(await context.export(responseLabel, 32))
    return { content, keys: { header, enc, secret } }
  } catch {
    return undefined // not for this channel or damaged, which must look the same from outside
  }
}

/**
 * Seals a response with keys from the request's exporter and 32 random bytes, as RFC 9458 (section 4.4) does. Two different
 * responses to one request have different keys.
 */
export function sealResponse(
  content: Buffer,
  keys: ResponseKeys,
  channel: ChannelKeys,
  vaultTimeMs: number,
): Buffer {
  const salt = randomBytes(saltBytes)
  const header: ResponseHeader = { kind: 'answer', requestId: keys.header.requestId, vaultTimeMs }
  const { key, nonce } = responseSecrets(keys, salt)
  return Buffer.concat([
    salt,
    sealResponseHeader(header, channel.headerKey, salt, channel.route),
    sealBytes(key, nonce, aadOf('answer', keys.header), pad(content)),
  ])
}

/** Seals a notice, which is as long as a short response. Random bytes replace the ciphertext. */
export function sealNotice(
  kind: Exclude<ResponseKind, 'response'>,
  requestId: Buffer,
  channel: ChannelKeys,
  vaultTimeMs: number,
): Buffer {
  const salt = randomBytes(saltBytes)
  const box = sealResponseHeader({ kind, requestId, vaultTimeMs }, channel.headerKey, salt, channel.route)
  return Buffer.concat([salt, box, randomBytes(bucketBytes[0] + tagBytes)])
}

/** The id of the request to which a response belongs. Undefined if the response is not from this channel. */
export function readResponseHeader(sealed: Buffer, channel: ChannelKeys): ResponseHeader | undefined {
  if (!hasBucket(sealed.byteLength - saltBytes - responseBoxBytes)) return undefined
  const [salt, box] = [
    sealed.subarray(0, saltBytes),
    sealed.subarray(saltBytes, saltBytes + responseBoxBytes),
  ]
  return openResponseHeader(box, channel.headerKey, salt, channel.route)
}

/** Opens a response with the keys of its request. Undefined if the response belongs to another request or is damaged. */
export function openResponse(sealed: Buffer, keys: ResponseKeys): Buffer | undefined {
  const { key, nonce } = responseSecrets(keys, sealed.subarray(0, saltBytes))
  const ciphertext = sealed.subarray(saltBytes + responseBoxBytes)
  const padded = openBytes(key, nonce, aadOf('answer', keys.header), ciphertext)
  return padded && unpad(padded)
}

const responseLabel = Buffer.from(`${protocol} answer`)

function responseSecrets(keys: ResponseKeys, salt: Buffer): { key: Buffer; nonce: Buffer } {
  const both = Buffer.concat([keys.enc, salt])
  return { key: derive(keys.secret, both, 'key'), nonce: derive(keys.secret, both, 'nonce', 12) }
}

/** Associated data: the direction (with the kind of the request), the request id, its sequence number and its expiry. */
const aadOf = (direction: 'request' | 'answer', header: RequestHeader): Buffer =>
  lengthPrefixed(
    `${direction}/${header.kind}`,
    header.requestId,
    uint64(header.sequence),
    uint64(header.expiresAtMs),
  )

const hasBucket = (bytes: number): boolean => bucketBytes.some((size) => size + tagBytes === bytes)
