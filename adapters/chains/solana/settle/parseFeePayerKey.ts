import { base58 } from '@scure/base'
import { TollgateError } from '../../../../core/errors/error.ts'
import { readSigningKey, type SigningKey } from '../../../../core/solana/signingKey.ts'

/**
 * Reads a fee payer's secret: 64 bytes (seed and public key) as base58, the form of wallets, or as a JSON array of
 * numbers, the form of `solana-keygen`.
 *
 * @throws {TollgateError} `VALIDATION_ERROR` that says which form was expected; it never repeats the secret.
 */
export function parseFeePayerKey(secret: string): SigningKey {
  const bytes = readSecret(secret.trim())
  if (bytes?.length !== 64) {
    throw new TollgateError(
      'VALIDATION_ERROR',
      'Expected the fee payer key of Solana as 64 bytes in base58 or as a JSON array of 64 numbers. Make one with `solana-keygen new`.',
    )
  }
  const key = readSigningKey(bytes)
  if (key !== undefined) return key
  throw new TollgateError(
    'VALIDATION_ERROR',
    'The two halves of the fee payer key of Solana do not belong together: the second must be the public key of the first. Copy the key again.',
  )
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
