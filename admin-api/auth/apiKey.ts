import { randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const prefix = 'tg_live_'
const secretChars = 32
const checksumChars = 6
/** `tg_live_` and four characters of the secret: enough to tell keys apart, too little to guess one. */
const shownChars = prefix.length + 4
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const form = new RegExp(`^${prefix}[0-9A-Za-z]{${secretChars + checksumChars}}$`)

/** A new API key: `tg_live_`, 32 base62 characters (190 random bits), 6 of checksum. */
export function createApiKey(): string {
  return withChecksum(prefix + Array.from({ length: secretChars }, () => alphabet[randomInt(62)]).join(''))
}

/**
 * The API key that 32 bytes stand for: the same bytes give the same key. 62^32 divides 2^256 with a remainder that
 * favours some keys by less than one part in 2^65.
 *
 * @param bytes 32 bytes that nobody else can compute, such as a MAC
 */
export function apiKeyFrom(bytes: Uint8Array): string {
  return withChecksum(prefix + base62(BigInt(`0x${Buffer.from(bytes).toString('hex')}`), secretChars))
}

/** Whether a text can be a key at all; spares the database whatever was mistyped, cut off or made up. */
export function isApiKeyForm(text: string): boolean {
  return form.test(text) && withChecksum(text.slice(0, -checksumChars)) === text
}

/** The leading part of a key that is stored and shown. */
export const prefixOf = (key: string): string => key.slice(0, shownChars)

const withChecksum = (body: string): string => body + base62(BigInt(crc32(body)), checksumChars)

function base62(value: bigint, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest /= 62n) text = alphabet[Number(rest % 62n)] + text
  return text
}
