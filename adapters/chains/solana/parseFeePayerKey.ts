import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { base58 } from '@scure/base'
import { TollgateError } from '../../../core/errors/error.ts'
import { sameBytes } from '../../../core/solana/bytes.ts'

/** DER of an Ed25519 private key up to the 32 seed bytes (RFC 8410). */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex')

/** The key that pays network fees. It can sign; the secret itself is not readable from it. */
export interface FeePayerKey {
  /** Base58. */
  readonly address: string
  /** 64 bytes, the same for the same message (Ed25519 is deterministic): a message has one transaction id. */
  sign(message: Uint8Array): Uint8Array
}

/**
 * Reads a fee payer's secret: 64 bytes (seed and public key) as base58, the form of wallets, or as a JSON array of
 * numbers, the form of `solana-keygen`.
 *
 * @throws {TollgateError} `VALIDATION_ERROR` that says which form was expected; it never repeats the secret.
 */
export function parseFeePayerKey(secret: string): FeePayerKey {
  const bytes = readSecret(secret.trim())
  if (bytes?.length !== 64) {
    throw new TollgateError(
      'VALIDATION_ERROR',
      'Expected the fee payer key of Solana as 64 bytes in base58 or as a JSON array of 64 numbers. Make one with `solana-keygen new`.',
    )
  }
  const seed = bytes.subarray(0, 32)
  const privateKey = createPrivateKey({
    key: Buffer.concat([pkcs8Prefix, seed]),
    format: 'der',
    type: 'pkcs8',
  })
  const publicKey = publicBytes(privateKey)
  if (!sameBytes(publicKey, bytes.subarray(32))) {
    throw new TollgateError(
      'VALIDATION_ERROR',
      'The two halves of the fee payer key of Solana do not belong together: the second must be the public key of the first. Copy the key again.',
    )
  }
  return { address: base58.encode(publicKey), sign: (message) => sign(null, message, privateKey) }
}

function readSecret(secret: string): Uint8Array | undefined {
  try {
    if (!secret.startsWith('[')) return base58.decode(secret)
    const numbers: unknown = JSON.parse(secret)
    const isBytes = Array.isArray(numbers) && numbers.every((n) => Number.isInteger(n) && n >= 0 && n <= 255)
    return isBytes ? Uint8Array.from(numbers as number[]) : undefined
  } catch {
    // The cause may quote the secret.
    return undefined
  }
}

function publicBytes(privateKey: KeyObject): Uint8Array {
  return createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-32)
}
