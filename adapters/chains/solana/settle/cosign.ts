import { base58 } from '@scure/base'
import type { SigningKey } from '../../../../core/solana/signingKey.ts'
import { signatureBytes, type WireTransaction } from '../../../../core/solana/wire.ts'

/** A transaction with all its signatures: from here on it can land. */
export interface SignedTransaction {
  readonly base64: string
  /** The fee payer's signature in base58: the transaction's id. */
  readonly signature: string
}

/** Whether the payer pays the fee itself, of a transaction that the check has passed: then nobody else signs. */
export const isSelfPaid = ({ signatures }: WireTransaction): boolean => signatures.length === 1

/**
 * Fills the fee payer's slot of a transaction that the check has passed; one whose fee the payer pays is whole already.
 * The same transaction gives the same bytes.
 */
export function cosign(transaction: WireTransaction, key: SigningKey): SignedTransaction {
  const { bytes, message, signatures } = transaction
  if (isSelfPaid(transaction)) {
    return { base64: Buffer.from(bytes).toString('base64'), signature: base58.encode(signatures[0]!) }
  }
  const signature = key.sign(message)
  const signed = Buffer.from(bytes)
  // Two signatures, so that their number takes one byte.
  signed.set(signature, 1)
  if (signature.length !== signatureBytes || bytes[0] !== 2)
    throw new Error('A payment has two signatures of 64 bytes.')
  return { base64: signed.toString('base64'), signature: base58.encode(signature) }
}
