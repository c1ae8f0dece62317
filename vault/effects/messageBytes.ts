import { decodeStrictBase64 } from '../../core/x402/header.ts'
import type { MessageRequest } from './chainPlugin.ts'

/**
 * The bytes of a message request in the encoding that it names, each in its one spelling.
 *
 * @returns undefined when they are none, empty or more than `maxBytes`
 */
export function messageBytes(
  { message, encoding = 'utf8' }: Pick<MessageRequest, 'message' | 'encoding'>,
  maxBytes: number,
): Uint8Array | undefined {
  const bytes = decode(message, encoding, maxBytes)
  return bytes !== undefined && bytes.length > 0 && bytes.length <= maxBytes ? bytes : undefined
}

function decode(message: unknown, encoding: string, maxBytes: number): Uint8Array | undefined {
  if (typeof message !== 'string' || message.length > maxBytes * 2 + 2) return undefined
  if (encoding === 'utf8') return message.isWellFormed() ? Buffer.from(message, 'utf8') : undefined
  if (encoding === 'hex')
    return /^0x(?:[0-9a-fA-F]{2})+$/.test(message) ? Buffer.from(message.slice(2), 'hex') : undefined
  return encoding === 'base64' ? decodeStrictBase64(message, maxBytes) : undefined
}
