import { base58 } from '@scure/base'
import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'

/** Longer than any form of a key, including spaces. */
const LONGEST = 1_024

const hexForm = /^(?:0x)?((?:[0-9a-fA-F]{2}){1,64})$/
const bytesForm = /^\[[\d,\s]+\]$/

/**
 * The bytes of a private key as wallets write them: hex, with or without `0x`, for EVM; for Solana base58 of 64 bytes, the list
 * of 64 numbers of solana-keygen, or hex. `checkPrivateKey` validates them. 32 bytes in base58 are refused, because they are an
 * address. If a public address became a seed, any program could derive the key.
 *
 * @throws `VALIDATION_ERROR`. The message never contains the text
 */
export function readPrivateKeyText(family: KeyFamily, text: string): Buffer {
  const trimmed = text.trim()
  if (isAddress(trimmed))
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected a private key, got ${trimmed.startsWith('0x') ? 'an EVM address' : 'a Solana address'}. Nothing was stored. Export the private key of this account from its wallet, then import that.`,
    )
  const bytes = trimmed.length > LONGEST ? undefined : decode(family, trimmed)
  if (bytes !== undefined) return bytes
  throw new VaultError(
    'VALIDATION_ERROR',
    family === 'evm'
      ? 'Expected the private key as 64 hexadecimal digits.'
      : 'Expected the private key as 64 bytes in base58, as the list of 64 numbers of solana-keygen, or as hexadecimal digits.',
  )
}

/**
 * A key in the form that the family's wallets accept. It is `0x` and hex for EVM, and base58 of the 64 private and public bytes
 * for Solana.
 */
export function writePrivateKeyText(
  family: KeyFamily,
  privateKey: Uint8Array,
  publicKey: Uint8Array,
): string {
  if (family === 'evm') return `0x${Buffer.from(privateKey).toString('hex')}`
  const whole = Buffer.concat([privateKey, publicKey])
  try {
    return base58.encode(whole)
  } finally {
    whole.fill(0)
  }
}

/** Whether a text is an address of either family, because an address of the other family is not a key either. */
function isAddress(text: string): boolean {
  if (/^0x[0-9a-fA-F]{40}$/.test(text)) return true
  if (!/^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(text)) return false
  return base58.decode(text).length === 32
}

function decode(family: KeyFamily, text: string): Buffer | undefined {
  const hex = hexForm.exec(text)?.[1]
  if (family === 'evm') return hex === undefined ? undefined : Buffer.from(hex, 'hex')
  if (bytesForm.test(text)) return fromList(text)
  // 64 digits are read as hex, because a key in base58 never has 64 characters.
  if (hex !== undefined && (hex.length === 64 || hex.length === 128)) return Buffer.from(hex, 'hex')
  try {
    return Buffer.from(base58.decode(text))
  } catch {
    return undefined
  }
}

function fromList(text: string): Buffer | undefined {
  const numbers = text.slice(1, -1).split(',').map(Number)
  return numbers.every((n) => Number.isInteger(n) && n >= 0 && n <= 255) ? Buffer.from(numbers) : undefined
}
