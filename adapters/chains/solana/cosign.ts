import { base58 } from '@scure/base'
import { signatureBytes, type WireTransaction } from '../../../core/solana/wire.ts'
import type { FeePayerKey } from './parseFeePayerKey.ts'

/** A transaction with all its signatures: from here on it can land. */
export interface SignedTransaction {
  readonly base64: string
  /** The fee payer's signature in base58: the transaction's id. */
  readonly signature: string
}

/** Fills the fee payer's slot of a transaction that the check has passed. The same transaction gives the same bytes. */
export function cosign({ bytes, message }: WireTransaction, key: FeePayerKey): SignedTransaction {
  const signature = key.sign(message)
  const signed = Buffer.from(bytes)
  // Two signatures, so that their number takes one byte.
  signed.set(signature, 1)
  if (signature.length !== signatureBytes || bytes[0] !== 2)
    throw new Error('A payment has two signatures of 64 bytes.')
  return { base64: signed.toString('base64'), signature: base58.encode(signature) }
}
